// Package soft is the software GPU: devices, contexts, streams, events, graphs and modules on top
// of the PTX interpreter in package simt.
//
// Open makes a gpu.Backend of a specification such as "soft:2,memory=4GiB". Contexts of one device
// share its memory, as they share addresses in a program, and see the memory of the other devices;
// each has its own modules, streams and fault. A lane (lane.go) is a goroutine with a queue:
// streams have one each, or in deterministic mode all one, so that work runs in the order in which
// it was submitted. work.go says what each kind of work does.
//
// The package is complete rather than fast, and knows nothing of programs and handles: that is
// package session.
package soft
