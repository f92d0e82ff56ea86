// Package cluster holds the nouns of many machines: nodes with their GPUs, and the jobs that want
// them.
//
// It is vocabulary: plain data, checked where it enters, without behaviour. Who gets a GPU when is
// package scheduler's to say, how a training job is cut into stages and survives the loss of nodes
// is package cluster/pipeline's.
//
// Read node.go first, then job.go.
package cluster
