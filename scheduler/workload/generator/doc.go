// Package generator makes workloads up: jobs that arrive at random, at a chosen load of a cluster
// or at so many an hour.
//
//	poisson  independent arrivals of equal jobs
//	burst    the same, and many short jobs on top at regular times
//	tenants  teams with jobs of their own kinds share a cluster
//
// Lengths follow a Law, sizes a Mix. What is random is drawn from a generator of our own (random.go
// says why), so that a trace can be cited by its seed: the same seed makes the same jobs on every
// machine and after every update of Go. Traces of one seed at two loads have the same jobs, which
// only come closer together.
//
// It reads nothing; package workload does. Read generator.go first.
package generator
