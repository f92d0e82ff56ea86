package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/compose"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// orders returns all names that --order takes under the native profile.
func orders() []string { return slices.Concat(order.Names(), elastic.Names(), []string{synthesizer}) }

// policies composes a scheduler for some jobs. Each simulation needs its own: some policies keep
// state.
func (s *settings) policies(jobs *packed.Jobs, t tables) (scheduler.Policies, error) {
	if err := s.refuse(jobs, t); err != nil {
		return scheduler.Policies{}, err
	}
	p, err := s.base(jobs, t)
	if err != nil {
		return p, err
	}
	if s.Order == synthesizer {
		return s.synthesizerPolicies(func() scheduler.Policies {
			again, _ := s.base(jobs, t) // it succeeded just now
			return again
		})
	}
	return p, s.ordering(&p, t)
}

// base returns all policies but the order.
func (s *settings) base(jobs *packed.Jobs, t tables) (p scheduler.Policies, err error) {
	p = scheduler.Policies{
		Round:     s.round,
		Quantum:   s.quantum,
		CostShare: s.CostShare,
		Retries:   s.Retries,
		Caps:      s.Caps.whole(),
	}
	if p.Walk, err = s.parseWalk(); err != nil {
		return p, err
	}
	if t.models != nil && s.Model == ownModel {
		p.Speeds = throughput.NewSpeeds(t.models)
	}
	s.apply(&p, t)
	if t.costs != nil {
		p.Costs = t.costs.For(s.Tier)
	}
	err = s.names().SetOthers(&p, placement(s.Placement, jobs))
	return p, usage(err)
}

// names returns what the policies are called.
func (s *settings) names() compose.Names {
	return compose.Names{
		Order: s.Order, Placement: s.Placement, Admission: s.Admission, Backfill: s.Backfill, Victims: s.Victims,
	}
}

// ordering sets the order, or the allocator of an elastic policy.
func (s *settings) ordering(p *scheduler.Policies, t tables) (err error) {
	if slices.Contains(elastic.Names(), s.Order) {
		p.Order = order.FIFO{}
		if p.Round == 0 {
			p.Round = elasticRound
		}
		err := s.elastic(p, t)
		s.apply(p, t)
		return err
	}
	err = s.names().SetOrder(p, order.Parameters{
		Limits: s.limits, Promote: s.Promote, Lease: s.lease, Weights: s.Weights, Quotas: s.Quotas,
		Preemptive: s.PreemptivePriority,
		Contention: s.Contention,
		Aging:      s.age, Lengths: t.lengths(s.Order == "gittins2d"),
	})
	if err != nil && !slices.Contains(order.Names(), s.Order) {
		err = fmt.Errorf("unknown order %q; want one of %s", s.Order, strings.Join(orders(), ", "))
	}
	return usage(err)
}

// elasticRound is the default round of elastic policies.
const elasticRound = time.Minute

// parseWalk returns the value of --walk; without the flag, the order decides.
func (s *settings) parseWalk() (scheduler.Walk, error) {
	switch s.Walk {
	case "":
		return scheduler.ByOrder, nil
	case "strict":
		return scheduler.Strict, nil
	case "fill":
		return scheduler.Fill, nil
	}
	return 0, usage(fmt.Errorf("--walk takes strict or fill, not %q", s.Walk))
}

// usage makes an error a usage error.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &verb.UsageError{Text: err.Error()}
}

// usageOf makes an error a usage error if it is of a kind.
func usageOf(err, kind error) error {
	if errors.Is(err, kind) {
		return usage(err)
	}
	return err
}

// defaultQuantum is the default quantum under orders whose ranks grow.
const defaultQuantum = time.Minute

// ranksGrow reports whether a job's rank under an order grows while it runs.
func ranksGrow(name string) bool {
	return slices.Contains([]string{"las", "las2d", "gittins", "gittins2d", synthesizer}, name)
}

func isElastic(name string) bool { return slices.Contains(elastic.Names(), name) }

// names lists what a flag takes.
func names(all []string) string { return strings.Join(all, ", ") }
