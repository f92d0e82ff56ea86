package order

import (
	"errors"
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// ErrGroups is returned for orders that rank users first: no rank of a job can lift it over another
// user's.
var ErrGroups = errors.New(
	"aging cannot be combined with an order that ranks users: their shares already prevent starvation",
)

// Aging bounds the waiting time under another order. A job that has waited for the bound ranks
// before all that have not; among these, the longest wait is first. It keeps that rank in the
// following run until it has worked for as long as the bound, and at least MinTurn. Otherwise,
// under a tiny bound two jobs would preempt each other all the time, and jobs that load longer than
// the bound would never work. It is the classic remedy for starvation: A. Silberschatz et al.,
// "Operating System Concepts", chapter on CPU scheduling. If the order is not preemptive, the
// engine's walk must be strict, or small jobs overtake a large one forever.
func Aging(of scheduler.Orderer, bound time.Duration) (scheduler.Preemptive, error) {
	if _, groups := of.(scheduler.Grouper); groups {
		return nil, ErrGroups
	}
	return aging{of, bound}, nil
}

// MinTurn is the least working time for which an aged job keeps its rank.
const MinTurn = time.Minute

type aging struct {
	base  scheduler.Orderer
	bound time.Duration
}

// Rank returns the other order's rank until the job has waited too long.
func (a aging) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	now, waited := v.Now(), j.Waited(v.Now())
	if j.Phase() == scheduler.Running {
		if until := j.WorksFrom() + max(a.bound, MinTurn); waited >= a.bound && now < until {
			return scheduler.Rank{Tier: math.MinInt, Value: (j.Since() - waited).Seconds(), Until: until}
		}
		return a.base.Rank(v, j)
	}
	if waited >= a.bound {
		return scheduler.Rank{Tier: math.MinInt, Value: (now - waited).Seconds()}
	}
	rank := a.base.Rank(v, j)
	if old := now - waited + a.bound; rank.Until == 0 || old < rank.Until {
		rank.Until = old
	}
	return rank
}

// Preempts reports whether the other order preempts.
func (a aging) Preempts() bool { return preempts(a.base) }
