// Package code defines the form in which kernels are executed: flat, decoded, without names.
//
// Lower turns an entry point and all functions it can reach into a Kernel. A callee is placed
// before its callers: the lanes with the lowest program counter run first, so a call ends before
// the caller continues, and lanes reconverge after it. Registers have fixed places in a block of
// columns per warp (inst.go). Local and parameter memory of a function is a frame in local memory
// (layout.go). Instructions that are not supported are rejected here.
//
// The package executes nothing; package simt does. Tested by the tests of package simt.
package code
