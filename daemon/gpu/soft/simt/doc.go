// Package simt interprets PTX on the CPU: warps of 32 lanes, one decoded instruction for all lanes
// at a time.
//
// Link lowers ptx modules to a Program, whose Kernels an Engine runs in a Memory. Read link.go for
// the contents of a program, package code for the decoded form, exec.go for the main loop, warp.go
// for divergence, and block.go for the scheduling of warps and blocks. Package arith defines each
// operation on one lane, package space the address space.
//
// The package does not know streams, contexts or handles; daemon/gpu/soft builds the device on it.
//
// Lock order: Engine.serial, then run.mu. Program.mu is independent of both and held while a kernel
// is lowered. All may be held when package space takes its locks.
package simt
