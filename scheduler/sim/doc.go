// Package sim runs the scheduler in virtual time: it plays the jobs of a trace to an Engine, is the
// Executor of what the Engine plans, and writes down what became of every job.
//
// It knows what policies may not: how long jobs really are, when nodes fail, what a checkpoint
// costs. It decides nothing itself; simulators with rules of their own, bit for bit as others have
// published them, are in package scheduler/compat and share the Result. What a result looks like is
// package scheduler/plot's. Nothing here looks at a clock or draws a number that a seed does not
// decide.
//
// Read result.go first, then recorder.go and run.go.
package sim
