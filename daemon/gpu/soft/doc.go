// Package soft is the software GPU: devices, contexts, streams, events, graphs and modules on top
// of the PTX interpreter in package simt.
//
// Open opens a gpu.Backend from a specification such as "soft:2,memory=4GiB". Contexts of one
// device share its memory and addresses and can access the memory of the other devices. Each
// context has its own modules, streams and fault.
//
// A queue (queue.go) is a goroutine that runs work in order. Each stream has its own queue. In
// deterministic mode all streams share one, so that work runs in submission order. work.go runs
// each kind of work.
//
// The package is complete rather than fast. It does not know programs or handles; those belong to
// package session.
//
// Lock order: Backend.mu, Executable.mu, Module.mu and device.mu are outer locks, of which a
// goroutine holds at most one. Under Backend.mu and device.mu it may take the locks of package
// space, under Executable.mu those of Function, recording and queue, and under Module.mu that of
// simt.Program. Context.mu, Stream.mu and the lock of an account are held alone.
package soft
