package order

import "github.com/phos-gpu/phos/scheduler"

// FIFO orders jobs by arrival.
type FIFO struct{}

// Rank is the same for all jobs: ties go to the earlier submission.
func (FIFO) Rank(scheduler.View, *scheduler.Job) scheduler.Rank { return scheduler.Rank{} }

// Unranked marks FIFO as a scheduler.Unranked.
func (FIFO) Unranked() {}
