// Package schedule simulates one iteration of a pipeline, event by event, in the order
// one-forward-one-backward.
//
// It verifies the formula of a template's time, and provides the data for charts of an iteration.
// Like the formula, it passes microbatches on without delay: links cost nothing.
//
// Read run.go first.
package schedule
