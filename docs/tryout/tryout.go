package tryout

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Tryout gives every new job GPUs at once, for a little while: most bugs show in the first minutes.
// Who has had its try goes on as it came.
type Tryout struct {
	For time.Duration
}

// Rank puts jobs that have not run for long enough before all others.
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

// Preempts lets a new job take the GPUs of one that has had its try.
func (Tryout) Preempts() bool { return true }
