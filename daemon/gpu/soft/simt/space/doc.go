// Package space is the address space of the software GPU: a window of device memory in chunks, host
// memory that kernels can access, the windows of peer devices, and aliases (alias.go).
//
// Every chunk has one state. A Span, the result of Find, covers only chunks whose state allows the
// access. With a kept span, one comparison per access checks bounds, presence and the dirty bit. A
// kept span is valid until the version changes; epoch.go tells how Unmap and ClearDirty wait
// until no stale span is in use.
//
// The package does not know kernels; package simt runs them on it. Read memory.go first.
//
// Lock order: sharing.mu, Memory.mu, then the lock of the registry. Only one Memory.mu is held at a
// time. A caller that holds spans must not take Memory.mu, because its holder may wait for the
// spans.
package space
