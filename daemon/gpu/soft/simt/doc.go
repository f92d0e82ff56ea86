// Package simt executes checked PTX on the CPU: warps of 32 lanes, one decoded instruction for all
// lanes at a time.
//
// Link lowers ptx modules to a Program, whose Kernels an Engine runs against a Memory. Read link.go
// for what a program is, package code for the decoded form, exec.go for the loop that everything
// else serves, warp.go for divergence and block.go for how warps and blocks take turns. The meaning
// of a single operation on a single lane is in package arith, the address space in package space.
//
// The package knows no streams, contexts or handles: daemon/gpu/soft builds the device on it.
package simt
