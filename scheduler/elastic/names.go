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

	// Weights are users' weights for gavel.
	Weights map[string]float64
	// Pack lets optimus choose the nodes, too.
	Pack bool
	// Costs are what Pollux assumes a restart to take; nil means the 30 s of its paper.
	Costs scheduler.Costs
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
		gavel := NewGavel(t)
		gavel.Weights = p.Weights
		return gavel, throughput.NewSpeeds(t), nil
	case "optimus":
		optimus := NewOptimus(t)
		optimus.Pack = p.Pack
		return optimus, throughput.NewSpeeds(t), nil
	case "pollux":
		pollux := NewPollux(t, p.Seed)
		pollux.Costs = p.Costs
		return pollux, throughput.NewAdaptiveSpeeds(t), nil
	}
	return nil, nil, fmt.Errorf(
		"%w %q; want one of %s",
		ErrUnknown,
		name,
		strings.Join(slices.Sorted(slices.Values(Names())), ", "),
	)
}
