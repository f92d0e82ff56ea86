// Package victims holds the policies that choose which jobs are preempted for a waiting job.
//
// The engine decides which jobs may be preempted: it offers those that rank behind the waiting job
// and have completed their quantum, last first. It preempts only if the job then fits, and asks for
// more victims if the freed GPUs do not suit it.
//
// Read tail.go first.
package victims
