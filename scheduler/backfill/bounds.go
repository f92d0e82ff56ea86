package backfill

import (
	"cmp"
	"slices"
	"time"
)

// bounds is the times that jobs of one kind and number of GPUs were promised, by how long they take.
// As long as promises are only added, and nothing surprising happens, a job that takes no less long
// than another gets its GPUs no earlier: so nobody looks for a time before.
type bounds []bound

// bound is that the first time for so long is at.
type bound struct{ runtime, at time.Duration }

// earliest is before when a job that takes so long need not look for its GPUs.
func (k bounds) earliest(long time.Duration) time.Duration {
	i, same := slices.BinarySearchFunc(k, long, bound.compare)
	switch {
	case same:
		return k[i].at
	case i > 0:
		return k[i-1].at
	}
	return 0
}

// add notes a time that was found. What it says more than others is kept, and what they say more:
// both numbers grow from one to the next.
func (k bounds) add(f bound) bounds {
	i, same := slices.BinarySearchFunc(k, f.runtime, bound.compare)
	if !same && i > 0 && k[i-1].at >= f.at {
		return k
	}
	over := i
	for over < len(k) && k[over].at <= f.at {
		over++
	}
	return slices.Replace(k, i, over, f)
}

func (f bound) compare(long time.Duration) int { return cmp.Compare(f.runtime, long) }
