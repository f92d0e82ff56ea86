// Package template finds the best cut of a model's layers into stages for each number of nodes a pipeline may have.
//
// The search is exact. With one GPU a node every stage is a node (single.go); with several a stage is some GPUs of one node, and how a
// node is divided is searched too (slots.go). Where GPU memory decides, a stage's place matters, because the first stages keep more
// microbatches than the last: slots.go does that as well. Oobleck's own search, which is not exact, is kept for comparison (recursive.go).
//
// What all have in common: the slowest stage's time and place decide an iteration's, so candidates for it are tried one after the other,
// and what is left is easy. Package instance puts templates on nodes.
//
// Read sizes.go first.
package template
