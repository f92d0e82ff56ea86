package tryout

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Tryout gives every new job GPUs at once, for a short time: most bugs show in the first minutes.
// After its trial, a job continues in the order of arrival.
type Tryout struct {
	For time.Duration
}

// Rank puts jobs that have run for less than For before all others.
func (t Tryout) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	left := t.For - j.Attained(v.Now())
	switch {
	case left <= 0:
		return scheduler.Rank{Tier: 1}
	case j.Phase() == scheduler.Running:
		return scheduler.Rank{Tier: 0, Until: max(v.Now(), j.WorksFrom()) + left}
	}
	return scheduler.Rank{Tier: 0}
}

// Preempts lets a new job take the GPUs of a job whose trial is over.
func (Tryout) Preempts() bool { return true }
