// Package pipeline holds the data types for planning pipeline-parallel training: the costs of a
// model's layers, templates that cut them into stages, and plans of pipelines on nodes.
//
// A model trains in several pipelines at once, each with a complete copy of it. A pipeline's layers
// are cut into stages, each on GPUs of one node. A template is such a cut for a number of nodes,
// computed in advance, so that the loss of a node needs another template and not a search. The
// parts:
//
//	template  from a profile to the best cut for each number of nodes
//	instance  which templates, how many of each, how many microbatches for each: a plan
//	replan    the plan after nodes have died, joined or are to leave, and what must be copied where
//	replay    a plan under a trace of failures
//	schedule  one iteration of a pipeline, event by event
//	draw      charts of these
//	progress  what a training by such plans says of itself
//
// The idea is Oobleck's (Jang et al., SOSP 2023). All times are integer nanoseconds and all
// arithmetic is exact, so that every node computes the same plan, which the plans' hashes verify.
//
// pos_cli plan uses it, and through that the Python package phos.pipeline, which trains by such
// plans.
//
// The package does not know GPUs, processes or networks. Read profile.go and plan.go first.
package pipeline
