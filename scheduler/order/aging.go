package order

import (
	"errors"
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// ErrGroups refuses to age jobs whose users are ranked first: no rank of a job lifts it over
// another user's.
var ErrGroups = errors.New(
	"aging does not go with an order that ranks users: their shares are what keeps a job from starving",
)

// Aging bounds how long anybody waits under another order. A job that has waited for the bound goes
// before all that have not, those that wait longest first, and keeps its place in that run until it
// has worked for as long as the bound again, and for Turn at least. So jobs take turns at worst:
// under a bound of a moment two would otherwise stop each other at every moment, and where loading
// takes longer than the bound, none would work. It is the classic remedy for starvation: A.
// Silberschatz et al., "Operating System Concepts", chapter on CPU scheduling. Where the order is
// not preemptive, the engine's walk must be strict, or small jobs pass by a large one for ever.
func Aging(of scheduler.Orderer, bound time.Duration) (scheduler.Preemptive, error) {
	if _, groups := of.(scheduler.Grouper); groups {
		return nil, ErrGroups
	}
	return aging{of, bound}, nil
}

// MinTurn is how long a job that has waited too long keeps its place at least.
const MinTurn = time.Minute

type aging struct {
	base  scheduler.Orderer
	bound time.Duration
}

// Rank is the other order's until the job has waited too long.
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

// Preempts is as the other order does.
func (a aging) Preempts() bool { return preempts(a.base) }
