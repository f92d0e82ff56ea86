// Package generator generates synthetic workloads: random arrivals at a given load of a cluster or
// rate per hour.
//
//	poisson  independent arrivals of equal jobs
//	burst    the same, with many short jobs on top at regular times
//	tenants  teams with jobs of their own kinds share a cluster
//
// Lengths follow a Law, sizes a Mix. Random numbers come from a generator of our own (random.go
// says why), so that a trace can be cited by its seed: the same seed gives the same jobs on every
// machine and with every version of Go. Traces of one seed at two loads have the same jobs, only
// closer together.
//
// Package workload reads and writes files. Read generator.go first.
package generator
