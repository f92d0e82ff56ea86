package backfill

import (
	"cmp"
	"slices"
	"time"
)

// bounds is a list of reserved start times of jobs with the same number of GPUs on the same
// profile, by runtime. As long as reservations are only added and nothing deviates, a job that runs
// at least as long as another one gets its GPUs no earlier. So the search for its start begins
// there.
type bounds []bound

// bound says that the first possible start for a runtime is `at`.
type bound struct{ runtime, at time.Duration }

// earliest returns a lower bound of the start of a job with a runtime.
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

// add inserts a bound and drops those that it makes redundant. Both runtime and start increase from
// one entry to the next.
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
