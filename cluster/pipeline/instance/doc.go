// Package instance turns templates into a plan: how many pipelines of each template the nodes make,
// and how many microbatches of the global batch each gets, so that an iteration takes least.
//
// All pipelines of a template get the same number of microbatches. An iteration takes as long as
// its slowest pipeline (batch.go), so what is looked for is the least time that a combination of
// templates can keep. Combinations are not enumerated: for each number of pipelines there is a
// bound of what it can do in a time, and only what the bound leaves is looked at (combine.go).
//
// Read batch.go first.
package instance
