package order

import "github.com/phos-gpu/phos/scheduler"

// DRF is dominant resource fairness: the user with the lowest dominant share is first, its jobs by
// arrival. A. Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource
// Types", NSDI 2011. The resources are GPUs (in shares, if shared) and their memory: a user with
// few thousandths of a GPU and most of its memory counts by the memory.
type DRF struct {
	// Weights are users' relative entitlements; 1 for users without an entry.
	Weights map[string]float64

	// Within orders the jobs of one user; nil means FIFO.
	Within scheduler.Orderer
}

// Rank orders the jobs of one user.
func (d DRF) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return orFIFO(d.Within).Rank(v, j)
}

// Group returns the user.
func (DRF) Group(j *scheduler.Job) string { return j.User() }

// RankGroup returns the user's dominant share, divided by the weight.
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

// ratio returns has/all, and 0 if all is 0.
func ratio(has, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return has / all
}

// orFIFO returns the order, or FIFO if it is nil.
func orFIFO(of scheduler.Orderer) scheduler.Orderer {
	if of == nil {
		return FIFO{}
	}
	return of
}
