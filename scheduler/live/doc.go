// Package live runs a scheduler in real time: it passes events to an Engine as they happen, and the
// Engine's plans to an Executor.
//
// It makes no decisions and keeps no state but the time. All decisions are in package scheduler and
// are the same in a simulation; the Executor starts processes and takes checkpoints. The package
// has no locks: one goroutine runs the loop, and Loop.Do lets others read the engine there.
//
// A scheduler that takes over from another one has a clock that goes on (WallSince), and a new
// engine whose first events are one Adopted for each job that has not ended, with what
// scheduler.Job.State returned for it, and Cordoned, Drained, NodeDown and Occupied as they hold.
// It then decides as the other one would have, with exceptions. It decides once more at the time of
// the takeover: so a round may run twice, and a job may be preempted a third time at one instant.
// And some policies remember more than the states of jobs:
//
//   - Conservative backfilling makes its reservations again, in the jobs' order: a job may get a
//     later one than it had, if runs ended early. Under EASY, too, a job that exceeds its estimate
//     is expected to end later than it was before.
//   - themis ranks waiting jobs at the takeover, too, not only at multiples of its lease. drf, load
//     and quotas of admission look at the capacity again, which may have changed since they did.
//   - gavel counts received time from the takeover on. pollux forgets how many GPUs a job has had
//     beyond those that it has. synthesizer begins with its first candidate.
//   - Learned costs (scheduler/costs) are a file, which must be kept.
//   - scheduler.Usage.Service has of a user's earlier jobs only those that have not ended.
//   - Two jobs whose ranks differ by less than a rounding error may change places.
//
// Read loop.go.
package live
