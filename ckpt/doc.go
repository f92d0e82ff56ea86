// Package ckpt runs the steps of a checkpoint and of a restore of a process tree. It depends
// neither on CRIU nor on GPUs: the CPU half is a CPU, the GPU half of each process is a GPU, and
// the image is a directory of package ckpt/store.
//
// A checkpoint copies memory while the programs run. Then it closes the gates, waits for calls in
// flight, freezes the tree, saves what is dirty and the CPU half, and resumes the tree. Afterwards
// it writes the data that was only copied to buffers, and commits the manifest last. Every step is
// a failpoint. Every step before the end of the commit can be undone. Read interfaces.go first.
//
// Packages below: ckpt/image is the format and ckpt/store its files; daemon/worker/capture and
// daemon/worker/load copy memory out and in.
//
// Locks: imageWriter.mu is held while store.Transaction takes its lock, and progress.mu while the
// caller's Progress function runs. Prepared.mu, checkpoint.mu and timing.mu are leaves.
package ckpt
