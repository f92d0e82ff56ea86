package backfill

import (
	"cmp"
	"slices"
	"time"
)

// known is the times that jobs of one kind and number of GPUs were promised, by how long they take.
// As long as promises are only added, and nothing surprising happens, a job that takes no less long
// than another gets its GPUs no earlier: so nobody looks for a time before.
type known []found

// found is that the first time for so long is at.
type found struct{ long, at time.Duration }

// earliest is before when a job that takes so long need not look for its GPUs.
func (k known) earliest(long time.Duration) time.Duration {
	i, same := slices.BinarySearchFunc(k, long, found.compare)
	switch {
	case same:
		return k[i].at
	case i > 0:
		return k[i-1].at
	}
	return 0
}

// note notes a time that was found. What it says more than others is kept, and what they say more:
// both numbers grow from one to the next.
func (k known) note(f found) known {
	i, same := slices.BinarySearchFunc(k, f.long, found.compare)
	if !same && i > 0 && k[i-1].at >= f.at {
		return k
	}
	over := i
	for over < len(k) && k[over].at <= f.at {
		over++
	}
	return slices.Replace(k, i, over, f)
}

func (f found) compare(long time.Duration) int { return cmp.Compare(f.long, long) }
