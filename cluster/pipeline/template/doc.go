// Package template finds the best cut of a model's layers into stages for each number of nodes a
// pipeline may have.
//
// The search is exact. What the ways to it have in common: the slowest stage's time and place
// decide an iteration's, so that candidates for it are tried, and what is left is easy.
//
//	sizes.go      for which numbers of nodes there are templates
//	single.go     one GPU a node, so that every stage is a node
//	best.go       several GPUs a node, or memory that decides: spans of times for the slowest stage are bounded and divided
//	slots.go      such a bound, over the ways to divide nodes and to place layers; the first stages keep more microbatches than the last
//	memory.go     the fewest nodes that hold the model
//	recursive.go  Oobleck's own search, which is not exact, for comparison
//
// Package instance puts templates on nodes.
//
// Read sizes.go first.
package template
