package order

import (
	"math"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
)

// Quota gives organisations and their teams ("a" and "a/b") GPUs of their own. What an owner leaves
// idle others borrow, and he takes it back by preemption when he needs it: hierarchical queues with
// guaranteed capacity, as in Hadoop's capacity scheduler, with who may take from whom as in M.
// Isard et al., "Quincy: Fair Scheduling for Distributed Computing Clusters", SOSP 2009 (fair
// sharing with preemption): only who is below his own from who is above his, and never so that they
// would change places. What an owner may borrow at most is the engine's to bound:
// scheduler.Policies.Caps. The teams' quotas should add up to no more than their organisation's,
// and the organisations' to no more than the cluster.
type Quota struct {
	// GPUs are what each owns. Who is not named owns nothing and borrows.
	GPUs map[string]float64

	// Within orders the jobs of one user; nil is FIFO. Unless it is preemptive, jobs of one user never
	// make room for each other.
	Within scheduler.Orderer
}

// Who holds no more than its own quota comes first, then who borrows from its own organisation,
// from others, from all.
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

// Group is the user.
func (Quota) Group(j *scheduler.Job) string { return j.User() }

// RankGroup is on whose GPUs the user would run, and how full his own and his organisation's are.
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

// parent is a team's organisation, or nothing.
func parent(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// Preempts is true.
func (Quota) Preempts() bool { return true }

func preempts(o scheduler.Orderer) bool {
	p, ok := o.(scheduler.Preemptive)
	return ok && p.Preempts()
}
