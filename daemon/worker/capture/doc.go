// Package capture copies the memory of a session while its program runs, so that the result is the
// memory at one instant, whatever the program's kernels do.
//
// A Capture lives as long as its worker and remembers hashes and digests from one checkpoint to the
// next. A Snapshot is one checkpoint: Precopy copies while the program runs, Cut captures what is
// still dirty while the program is paused, Finish writes what Cut has copied to buffers, and
// returns all entries.
//
// Changes are detected by dirty bits (gpu.Tracker), or by digests that the device computes in place
// (gpu.Digester), or by reading and digesting the memory here. The last is necessary for the pinned
// arena, to which the program's CPU writes, too. Cut computes the digests of one batch of chunks
// while it captures the dirty chunks of the previous one. It copies them within the device's own
// memory if possible (gpu.Shadower), or to buffers here up to a budget, or writes them at once.
// Several goroutines do that, so that one copies while another writes.
//
// Correctness depends on the order of steps for each chunk: forget its hash, clear its dirty bit,
// copy its bytes, record the hash of the copy. A store after the clearing sets the dirty bit again,
// so a hash is valid while the bit is clear. Comparisons use the digest of the copied bytes.
//
// Locks: Snapshot.mu is held while buffers.mu is taken, and Capture.mu while sources is called.
// memory.mu is a leaf.
//
// The package does not depend on sessions and files. Read source.go, then snapshot.go.
package capture
