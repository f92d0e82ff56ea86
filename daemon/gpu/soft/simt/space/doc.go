// Package space is the address space of the software GPU: a window of device memory in chunks, host
// memory that kernels may reach, the windows of peer devices, and chunks shown at further addresses
// (alias.go).
//
// Every chunk has one state, and a Span (what Find answers) covers only chunks whose state allows
// the access. So whoever keeps a span needs one comparison per access for bounds, presence and the
// written mark together. A kept span is good until the epoch changes; epoch.go says how Unmap and
// ClearWritten wait for those who hold old ones.
//
// The package knows nothing of kernels; package simt runs them on it. Read memory.go first.
package space
