// Package capture copies the memory of a session out while its program runs, such that the copy is
// the content at one instant, whatever the program's kernels do (decision 8 of the design).
//
// A Capture lives as long as a worker and remembers the names of contents from one checkpoint to
// the next. A Snapshot is one checkpoint: Precopy copies while the program runs, Cut takes what has
// changed since while it stands still, Finish writes what Cut has put aside, and names it all. What
// changed is never guessed: a memory says it by marks (gpu.Tracker), or by digests computed where
// it lies (gpu.Digester), or else it is read and digested here, as the pinned arena is, which the
// program's CPU writes too. At the cut the digests of some chunks are computed while what changed
// of those before is taken: put aside in the device's own memory where that is offered
// (gpu.Shadower), else copied aside here, up to a budget, else written at once, by several
// goroutines, so that one copies while another writes.
//
// The rule that makes it sound is the order of steps for each chunk: its name is forgotten, its
// mark cleared, its bytes copied, and the copy is named. A store after the clearing marks it again,
// so a name is good for as long as the mark is clear; and what is compared later is the digest of
// the bytes that were copied, never of those that were to be.
//
// The package knows nothing of sessions and files. Read source.go, then snapshot.go.
package capture
