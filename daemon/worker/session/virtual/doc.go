// Package virtual holds the state of a program's virtual memory management (cuMemAddressReserve,
// cuMemMap): which ranges are reserved, which allocation is mapped where, and which GPU has access.
// It is only data and rules: package session maps the GPUs' memory accordingly, and owns the
// allocations.
//
// Read space.go.
package virtual
