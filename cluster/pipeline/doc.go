// Package pipeline holds the nouns of planning pipeline-parallel training: what a model's layers
// cost, how a template cuts them into stages, and a plan of pipelines on nodes.
//
// A model trains in several pipelines at once, each holding a whole copy of it; a pipeline's layers
// are cut into stages, each on the GPUs of one node. A template is such a cut for a number of
// nodes, made beforehand, so that the loss of a node is answered by another template and not by a
// search. Which parts there are:
//
//	template   the cuts: from a profile to the best template for each number of nodes
//	instance   which templates, how many of each, how many microbatches for each: a plan
//	recover    a plan after nodes have died, joined or are to leave, and what must be copied where
//	replay     a plan's life under a trace of failures; a pipeline's schedule, event by event
//	draw       pictures of these
//
// The idea is Oobleck's (Jang et al., SOSP 2023). All times are whole nanoseconds and all
// arithmetic is exact, so that every node that plans for itself comes to the same plan, and the
// plans' hashes tell.
//
// It knows nothing of GPUs, processes or networks. Read profile.go and plan.go first.
package pipeline
