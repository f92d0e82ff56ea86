// Package scheduler decides which job gets which GPUs, and when. The same code runs a real cluster
// and a simulation.
//
// A scheduler is composed of policies. Each is a small interface of policy.go without side effects:
// it sees a read-only View and returns plain data. A new policy usually needs only an Orderer; the
// packages below this one supply the others.
//
//	order       which job is first
//	admit       which jobs are admitted
//	place       which GPUs a job gets
//	backfill    which jobs may overtake others
//	victims     which jobs are preempted
//	elastic     how many GPUs each job gets
//	costs       what a preemption costs
//	throughput  how fast jobs are on other GPUs
//	autoselect  picks policies by simulating ahead
//	live        the loop in real time
//	why         why a job waits
//	eventlog    the log of events and decisions
//	sim         virtual time, results
//	workload    traces and generators
//	plot        charts of results
//
// The Engine keeps the state. Its caller passes the time and the events since the last step; the
// Engine asks the policies and returns a Plan: which jobs stop, which start, and where. Each
// placement is checked before it enters the Plan, so no policy can allocate a GPU twice. An
// Executor carries out the Plan: in virtual time in package sim, on a cluster's nodes in package
// cluster/control.
//
// The rules for every part:
//
//   - Time is an argument. No code here reads a clock.
//   - The order of a file's lines, of map iteration or of goroutines never affects a decision. Ties
//     are broken by the job's number.
//   - A job is a gang: it gets all of its GPUs at once or none.
//   - A policy never sees a job's true length, only its owner's estimate.
//   - A Plan's stops happen before its starts. A started job takes over GPUs as soon as their
//     previous jobs are saved.
//
// The package does not depend on phosd, CUDA or files. Read job.go and policy.go first;
// schedulertest makes up Views for tests of policies.
package scheduler
