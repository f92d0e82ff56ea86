// Package graph holds a program's graphs and stream captures as data: nodes with their operations,
// edges, cloning, comparing, printing, and the rules of stream capture. It does not run graphs;
// package session turns a flattened Plan into a gpu.Graph.
//
// Read Graph and Op first, then capture.go, which follows the rules that the driver documents for
// stream capture, and plan.go, which inlines child graphs. Nothing here locks; the session's lock
// guards it.
package graph
