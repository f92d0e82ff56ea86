// Package cluster holds the data types of a GPU cluster: nodes with their GPUs, and jobs.
//
// It is plain data without behaviour, validated on input. Package scheduler decides which job gets
// which GPUs; package cluster/pipeline cuts a training job into stages and plans for the loss of
// nodes; package cluster/launch says what users may ask a cluster to run.
//
// Read node.go first, then job.go. placement.go has the text form of placements.
package cluster
