// Package schedule runs one iteration of a pipeline, event by event, in the order
// one-forward-one-backward.
//
// It is what the formula of a template's time is held to, and what pictures of an iteration show.
// Stages pass microbatches on without delay: neither knows what links cost.
//
// Read run.go first.
package schedule
