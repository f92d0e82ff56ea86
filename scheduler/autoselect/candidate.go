package autoselect

import (
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Candidate is an order with an admission policy. Both must be pure, because they are asked about
// real jobs and about copies.
type Candidate struct {
	Name  string
	Order scheduler.Orderer
	Admit scheduler.Admitter // nil: all jobs are admitted
}

// preempts reports whether the order preempts running jobs.
func (c *Candidate) preempts() bool {
	p, ok := c.Order.(scheduler.Preemptive)
	return ok && p.Preempts()
}

// Options control how often and how readily a Chooser switches.
type Options struct {
	// Every is the time between comparisons; 0 means an hour.
	Every time.Duration

	// Margin is by how much the best candidate must improve on the current one, as a part of the
	// current mean, before it replaces it. It keeps two nearly equal candidates from alternating, each
	// preempting what the other has started. 0 means that any gain suffices.
	Margin float64

	// Steps is the most decisions that are simulated for each candidate, so that simulating ahead
	// stays cheap; jobs that have not ended by then count with their remaining time. 0 means 20,000.
	Steps int
}

// DefaultMargin is a margin to begin with.
const DefaultMargin = 0.05

// ErrCandidate is returned for candidates that cannot be combined.
var ErrCandidate = errors.New("candidates")

// checkCandidates returns what is wrong with the candidates.
func checkCandidates(base scheduler.Policies, candidates []Candidate) error {
	if len(candidates) == 0 {
		return fmt.Errorf("%w: the list is empty", ErrCandidate)
	}
	if base.Allocate != nil {
		return fmt.Errorf("%w: an elastic policy replaces orders", ErrCandidate)
	}
	names := map[string]bool{}
	for i := range candidates {
		c := &candidates[i]
		switch _, groups := c.Order.(scheduler.Grouper); {
		case c.Order == nil:
			return fmt.Errorf("%w: %q has no order", ErrCandidate, c.Name)
		case groups:
			return fmt.Errorf("%w: %q ranks groups, which switching orders does not support", ErrCandidate, c.Name)
		case names[c.Name]:
			return fmt.Errorf("%w: %q is listed twice", ErrCandidate, c.Name)
		}
		if _, tenants := c.Admit.(scheduler.TenantAdmitter); tenants {
			return fmt.Errorf(
				"%w: %q has one queue for each tenant, which switching admission policies does not support",
				ErrCandidate,
				c.Name,
			)
		}
		names[c.Name] = true
	}
	return nil
}
