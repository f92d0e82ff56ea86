package elastic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// Parameters of the policies of this package.
type Parameters struct {
	Table *throughput.Table // of models; nil means the built-in one
	Seed  uint64            // of Pollux's search
}

// Names returns the policies of this package.
func Names() []string { return []string{"gavel", "optimus", "pollux"} }

// ByName returns a policy and the speeds that its jobs run at. One of each serves one engine.
func ByName(name string, p Parameters) (scheduler.Allocator, scheduler.Speeds, error) {
	t := p.Table
	if t == nil {
		t = throughput.NewTable()
	}
	switch name {
	case "gavel":
		return NewGavel(t), throughput.NewSpeeds(t), nil
	case "optimus":
		return NewOptimus(t), throughput.NewSpeeds(t), nil
	case "pollux":
		return NewPollux(t, p.Seed), throughput.NewAdaptiveSpeeds(t), nil
	}
	return nil, nil, fmt.Errorf(
		"%w %q; want one of %s",
		ErrUnknown,
		name,
		strings.Join(slices.Sorted(slices.Values(Names())), ", "),
	)
}
