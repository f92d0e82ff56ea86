// Package live runs a scheduler in real time: it passes events to an Engine as they happen, and the
// Engine's plans to an Executor.
//
// It makes no decisions and keeps no state but the time. All decisions are in package scheduler and
// are the same in a simulation; the Executor starts processes and takes checkpoints. The package
// has no locks: one goroutine runs the loop.
//
// Read loop.go.
package live
