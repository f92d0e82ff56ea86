package scheduler

import (
	"cmp"
	"time"
)

// Rank is a job's place in the order of those that want GPUs: the least goes first. Where ranks are equal, the job that was
// submitted earlier does, then the one of the smaller number.
//
// A rank is a line, not a number, so that nobody has to look at every running job whenever something happens: while the job waits its
// rank stands still, while it runs its Value grows at a constant rate. What changes otherwise is asked for again at Until.
type Rank struct {
	// Tier is compared first.
	Tier int

	// Value is compared second, as it is now.
	Value float64

	// Growth is how much Value grows in a second in which the job runs.
	Growth float64

	// Until is when the policy wants to be asked again, though the job has neither started nor stopped; 0 means never.
	Until time.Duration
}

// after is the rank when the job has been running for so long.
func (r Rank) after(ran time.Duration) Rank {
	r.Value += r.Growth * ran.Seconds()
	return r
}

// Compare is negative where r goes before other.
func (r Rank) Compare(other Rank) int {
	return cmp.Or(cmp.Compare(r.Tier, other.Tier), cmp.Compare(r.Value, other.Value))
}
