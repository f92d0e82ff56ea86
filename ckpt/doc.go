// Package ckpt is the order of steps in which a process tree is saved and brought back. It knows
// neither CRIU nor GPUs: the CPU half is a CPU, the GPU half of each process a Device, and the
// image a directory of package ckpt/store.
//
// A checkpoint copies while everything runs, closes the gate for new calls, lets what was called
// finish, freezes the tree, saves what changed and the CPU half, and lets it go on; what was only
// put aside is written afterwards, and the manifest comes last of all. Every step has its way back,
// and each is a failpoint. Read parts.go first.
//
// Below it: ckpt/image is the format, ckpt/store its files, daemon/worker/capture and
// daemon/worker/load move memory out and in.
package ckpt
