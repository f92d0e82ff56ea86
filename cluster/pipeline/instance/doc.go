// Package instance turns templates into a plan: the number of pipelines of each template, and the
// microbatches of each, so that an iteration is as short as possible.
//
// All pipelines of a template get equally many microbatches, if the batch allows that for any
// combination; otherwise some get one more than others. An iteration takes as long as its
// slowest pipeline (batch.go), so the search is for the least time within which a combination of
// templates can do the batch. Combinations are not enumerated: for each number of pipelines there
// is an upper bound of what it can do in a time, and only what the bound allows is searched
// (combine.go).
//
// Read batch.go first.
package instance
