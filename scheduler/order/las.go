package order

import "github.com/phos-gpu/phos/scheduler"

// LAS is least attained service, by time: the job that has run for the shortest time is first. It
// needs no knowledge of a job, and performs well if a few jobs take most of the time. On one
// machine it is foreground-background scheduling: I. Rai, G. Urvoy-Keller and E. Biersack,
// "Analysis of LAS Scheduling for Job Size Distributions with High Variance", SIGMETRICS 2003.
//
// Two jobs with equal service would preempt each other forever: give the engine a quantum.
type LAS struct{}

// Rank returns how long the job has run.
func (LAS) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Attained(v.Now()).Seconds(), Growth: 1}
}

// Preempts returns true.
func (LAS) Preempts() bool { return true }
