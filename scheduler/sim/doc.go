// Package sim runs the scheduler in virtual time: it passes the jobs of a trace to an Engine, acts
// as the Executor of its plans, and records what became of every job.
//
// It knows what policies may not: true lengths, node failures, checkpoint costs. It makes no
// decisions. Simulators with rules of their own, which reproduce published ones exactly, are in
// package scheduler/compat and share the Result; package scheduler/plot draws results. Nothing here
// reads a clock or draws a random number that does not depend on a seed.
//
// Read result.go first, then recorder.go and run.go.
package sim
