// Package object holds the graph of the objects that a program has created on its GPUs: contexts,
// streams, events, modules, functions, graphs, allocations. Each object has a record of the call
// that created it, with its arguments, and of the objects it depends on. So a restore can create
// the live objects again, in the same order.
//
// The package knows nothing about GPUs: package session attaches its own state to an object and
// does the work. Nothing here locks; the session's lock guards a Graph.
//
// An object refers to older ones in two ways. Its parent destroys it: a context destroys its
// streams. The objects that it Needs may be destroyed earlier: a graph may be destroyed while an
// executable made from it still exists. Its record is then kept, retired, because the younger
// object cannot be created again without it.
package object
