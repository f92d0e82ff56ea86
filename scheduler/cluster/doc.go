// Package cluster holds the data types of a GPU cluster: nodes with their GPUs, and jobs.
//
// It is plain data without behaviour, validated on input. Package scheduler decides which job gets
// which GPUs. What runs on a cluster, and how, is in the folder cluster.
//
// Read node.go first, then job.go. placement.go has the text form of placements.
package cluster
