// Package live runs a scheduler in real time: it brings an Engine what happens, as it happens, and
// an Executor what the Engine decides.
//
// It has no opinion of its own and no state but the time. Everything that decides is in package
// scheduler and is the same in a simulation; who starts processes and takes checkpoints is the
// Executor's writer.
//
// Read loop.go.
package live
