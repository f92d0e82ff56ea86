package order

import (
	"math"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
)

// Quota gives organisations and their teams ("a" and "a/b") GPUs of their own. Other users may
// borrow what an owner leaves idle, and the owner takes it back by preemption. These are
// hierarchical queues with guaranteed capacity, as in Hadoop's capacity scheduler, with the
// preemption rule of M. Isard et al., "Quincy: Fair Scheduling for Distributed Computing Clusters",
// SOSP 2009 (fair sharing with preemption): a user below its quota preempts users above theirs, but
// never so far that they change places. scheduler.Policies.Caps bounds what a user may borrow. The
// quotas of teams should add up to no more than their organisation's, and those of organisations to
// no more than the cluster.
type Quota struct {
	// GPUs are the quotas. A user without an entry owns nothing and borrows.
	GPUs map[string]float64

	// Within orders the jobs of one user; nil means FIFO. Unless it is preemptive, jobs of one user
	// never preempt each other.
	Within scheduler.Orderer
}

// The tiers: users within their own quota, then those that borrow from their own organisation, from
// others, from all.
const (
	entitled = iota
	borrowsAtHome
	borrows
	ownsNothing
)

// Rank orders the jobs of one user.
func (q Quota) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	rank := orFIFO(q.Within).Rank(v, j)
	if j.Phase() == scheduler.Running && !preempts(orFIFO(q.Within)) {
		rank.Tier = math.MinInt
	}
	return rank
}

// Group returns the user.
func (Quota) Group(j *scheduler.Job) string { return j.User() }

// RankGroup ranks by whose GPUs the user would use, and by how full its own and its organisation's
// quotas are.
func (q Quota) RankGroup(v scheduler.View, user string, more scheduler.Amount) scheduler.Rank {
	rank := scheduler.Rank{Tier: ownsNothing, Value: v.User(user).GPUs + more.GPUs}
	for name := user; name != ""; name = parent(name) {
		quota := q.GPUs[name]
		if quota <= 0 {
			continue
		}
		held := v.User(name).GPUs + more.GPUs
		switch {
		case rank.Tier == ownsNothing && held <= quota:
			rank = scheduler.Rank{Tier: entitled}
		case rank.Tier == ownsNothing:
			rank = scheduler.Rank{Tier: borrows}
		case rank.Tier == borrows && held <= quota:
			rank.Tier = borrowsAtHome
		}
		rank.Value += held / quota
	}
	return rank
}

// parent returns a team's organisation, or "".
func parent(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// Preempts returns true.
func (Quota) Preempts() bool { return true }

// preempts reports whether an order preempts.
func preempts(o scheduler.Orderer) bool {
	p, ok := o.(scheduler.Preemptive)
	return ok && p.Preempts()
}
