// Package graph holds the graphs of a program and the streams it captures into them, as data: nodes
// with what they do, edges, cloning, comparing, printing, and the rules of stream capture. Running
// is not its business; package session turns a flattened Plan into a gpu.Graph.
//
// Read Graph and Op first, then capture.go, which follows the rules that the driver documents for
// stream capture, and plan.go, which inlines child graphs. Nothing here locks; the session's lock
// guards it.
package graph
