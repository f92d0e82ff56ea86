package order

import "github.com/phos-gpu/phos/scheduler"

// FIFO serves jobs as they came.
type FIFO struct{}

// Rank is the same for all: ties go to who was submitted first.
func (FIFO) Rank(scheduler.View, *scheduler.Job) scheduler.Rank { return scheduler.Rank{} }

// Unranked says so to the engine.
func (FIFO) Unranked() {}
