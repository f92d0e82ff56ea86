package order

import "github.com/phos-gpu/phos/scheduler"

// LAS is least attained service, by time: whoever has run for the shortest time goes first. It
// needs to know nothing of a job, and does well where a few jobs take most of the time. On one
// machine it is foreground-background scheduling: I. Rai, G. Urvoy-Keller and E. Biersack,
// "Analysis of LAS Scheduling for Job Size Distributions with High Variance", SIGMETRICS 2003.
//
// Two jobs that have had the same would push each other aside for ever: give the engine a quantum.
type LAS struct{}

// Rank is how long the job has run.
func (LAS) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Attained(v.Now()).Seconds(), Growth: 1}
}

// Preempts is true.
func (LAS) Preempts() bool { return true }
