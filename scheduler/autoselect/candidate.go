package autoselect

import (
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Candidate is an order together with an admission. Both must be pure: they are asked about the
// real jobs and about copies of them.
type Candidate struct {
	Name  string
	Order scheduler.Orderer
	Admit scheduler.Admitter // nil: everybody is let in
}

// preempts reports whether its order stops running jobs.
func (c *Candidate) preempts() bool {
	p, ok := c.Order.(scheduler.Preemptive)
	return ok && p.Preempts()
}

// Options are how often and how readily a Chooser changes its mind.
type Options struct {
	// Every is how often candidates are compared; 0 means an hour.
	Every time.Duration

	// Margin is by how much the best must be better than the one in force, as a part of that one's
	// mean, before it takes over. It keeps two that are about equal from taking turns, each preempting
	// what the other has started. 0 means any gain will do; DefaultMargin is a start.
	Margin float64

	// Steps is how many decisions each candidate is simulated for at most, so that looking ahead stays
	// cheap; jobs that have not ended by then count as ending after what remains of them. 0 means
	// 20,000.
	Steps int
}

// DefaultMargin is a margin that one can begin with.
const DefaultMargin = 0.05

// ErrCandidate is in the chain of an error about candidates that cannot be mixed.
var ErrCandidate = errors.New("candidates")

// checkCandidates says what is wrong with candidates.
func checkCandidates(base scheduler.Policies, candidates []Candidate) error {
	if len(candidates) == 0 {
		return fmt.Errorf("%w: there are none", ErrCandidate)
	}
	if base.Allocate != nil {
		return fmt.Errorf("%w: an elastic policy takes the place of orders", ErrCandidate)
	}
	names := map[string]bool{}
	for i := range candidates {
		c := &candidates[i]
		switch _, groups := c.Order.(scheduler.Grouper); {
		case c.Order == nil:
			return fmt.Errorf("%w: %q has no order", ErrCandidate, c.Name)
		case groups:
			return fmt.Errorf("%w: %q ranks groups, which a change of order cannot do", ErrCandidate, c.Name)
		case names[c.Name]:
			return fmt.Errorf("%w: %q is there twice", ErrCandidate, c.Name)
		}
		if _, lanes := c.Admit.(scheduler.TenantAdmitter); lanes {
			return fmt.Errorf("%w: %q admits jobs lane by lane, which a change of admission cannot do", ErrCandidate, c.Name)
		}
		names[c.Name] = true
	}
	return nil
}
