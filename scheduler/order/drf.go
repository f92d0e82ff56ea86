package order

import "github.com/phos-gpu/phos/scheduler"

// DRF is dominant resource fairness: the user whose dominant share is least goes first, his jobs as
// they came. A. Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource
// Types", NSDI 2011. The resources are GPUs, by shares where they are shared, and the memory on
// them: who holds few thousandths of a GPU and most of its memory counts by the memory.
type DRF struct {
	// Weights are what users are entitled to, relative to each other; 1 for those that are not named.
	Weights map[string]float64

	// Within orders the jobs of one user; nil is FIFO.
	Within scheduler.Orderer
}

// Rank orders the jobs of one user.
func (d DRF) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return orFIFO(d.Within).Rank(v, j)
}

// Group is the user.
func (DRF) Group(j *scheduler.Job) string { return j.User() }

// RankGroup is the user's dominant share, by weight.
func (d DRF) RankGroup(v scheduler.View, user string, more scheduler.Amount) scheduler.Rank {
	has, all := v.User(user), v.Capacity()
	dominant := max(
		ratio(has.GPUs+more.GPUs, all.GPUs),
		ratio(float64(has.MemoryBytes+more.MemoryBytes), float64(all.MemoryBytes)),
	)
	if weight, named := d.Weights[user]; named {
		dominant /= weight
	}
	return scheduler.Rank{Value: dominant}
}

// ratio is what a share comes to; nothing of nothing is nothing.
func ratio(has, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return has / all
}

func orFIFO(of scheduler.Orderer) scheduler.Orderer {
	if of == nil {
		return FIFO{}
	}
	return of
}
