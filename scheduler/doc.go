// Package scheduler decides which job gets which GPUs, and when: for real and in a simulation, by
// the same code.
//
// A scheduler is put together from policies, each a small interface of policy.go that is pure: it
// sees a read-only View and answers with plain data. Only an Orderer must be written for a new
// policy; the others have defaults in the packages below this one.
//
//	order      who is first            admit      who is let in           place      on which GPUs
//	backfill   who may overtake        victims    who makes room          elastic    how many GPUs each
//	choose     a policy that picks policies by simulating ahead
//	costs      what preemption costs      live       the loop in real time
//	workload   traces and generators   sim        virtual time, results   picture    what it looked like
//
// The Engine keeps the state. It is given the time and what has happened, asks the policies, and
// answers with a Plan: which jobs stop and which start, where. A plan is checked before anybody
// acts on it, so that no policy can give a GPU away twice. Who acts is an Executor: virtual in
// package sim, processes or phosd's agents for real.
//
// The rules, for every part:
//
//   - Time is an argument. Nobody here looks at a clock.
//   - The order of a file's lines, of map iteration and of goroutines never decides anything: ties end at the job's number.
//   - A job is a gang: it gets all of its GPUs at once or none.
//   - A policy never sees how long a job really is, only its owner's estimate.
//   - A Plan's stops happen before its starts. A start takes GPUs over as soon as the jobs that held them have been saved.
//
// The package knows nothing of phosd, of CUDA or of files. Read job.go and policy.go first.
package scheduler
