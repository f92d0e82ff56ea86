// Package code is the form in which kernels are executed: flat, decoded, without names.
//
// Lower makes a Kernel of one entry point and every function it can reach, placed so that a callee
// comes before its callers: with lanes of the lowest program counter running first, a call is
// finished before the caller goes on, and lanes meet again after it. Registers have fixed places in
// a block of columns per warp (inst.go), functions' local and parameter memory is a frame in local
// memory (layout.go). An instruction that cannot be executed is refused here.
//
// The package executes nothing; package simt does.
package code
