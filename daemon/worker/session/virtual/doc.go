// Package virtual keeps what a program has built of addresses by the driver's virtual memory
// management: which ranges are reserved, which allocation is mapped where, and which GPU may do
// what there. It is data and its rules: package session does what it says to the memory of GPUs,
// and owns the allocations that handles stand for.
//
// Read space.go.
package virtual
