package elastic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// Parameters are what the policies of this package can be told.
type Parameters struct {
	Table *throughput.Table // of models; nil stands for our own
	Seed  uint64            // of Pollux's search
}

// Names are the policies of this package.
func Names() []string { return []string{"gavel", "optimus", "pollux"} }

// ByName makes a policy, and the speeds that its jobs run at. One of each serves one engine.
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
		"%w %q: there are %s",
		ErrUnknown,
		name,
		strings.Join(slices.Sorted(slices.Values(Names())), ", "),
	)
}
