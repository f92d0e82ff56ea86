// Package object keeps the graph of what a program has made on its GPUs: contexts, streams, events,
// modules, functions, graphs, allocations. Each object knows the call that made it and that call's
// arguments, what it was made from, and what takes it away, so that a restore can make the living
// ones again, in the same order.
//
// The package knows nothing of GPUs: package session hangs its own state on an object and does the
// work. Nothing here locks; the session's lock guards a Graph.
//
// Two relations lead from an object to older ones. Its Parent destroys it: a context takes its
// streams along. What it Needs may be destroyed before it, as a graph may while an executable made
// from it lives on; the record is then kept, retired, because replaying the younger object takes
// the older one.
package object
