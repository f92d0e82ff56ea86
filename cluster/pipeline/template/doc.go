// Package template finds the best cut of a model's layers into stages for each number of nodes that
// a pipeline may have.
//
// The search is exact. The time and place of the slowest stage determine an iteration's time, so
// all methods try candidates for it; the rest is then easy.
//
//	sizes.go      for which numbers of nodes there are templates
//	single.go     one GPU per node, so that every stage is a node
//	best.go       several GPUs per node, or limited memory: branch and bound
//	slots.go      the bound: a dynamic program over GPUs and layers; trace.go has its cut
//	reach.go      which layers some GPUs can reach at all
//	rests.go      what the other stages cost at least
//	memory.go     the fewest nodes that hold the model
//	recursive.go  Oobleck's own search, which is not exact, for comparison
//
// Package instance puts templates on nodes.
//
// Read sizes.go first.
package template
