// Package throughput models how fast jobs are on other GPUs than they ask for, by the model that
// they train: on more or fewer GPUs, of another type, on one node or on several.
//
// A Table has models: built-in ones (builtin.go) and measured ones (read.go). Elastic policies read
// it before they decide. Speeds gives the same answers to a simulation, so that a job with more
// GPUs really runs that much faster there.
//
// Table.Common makes one model for all policies, so that their results compare.
//
// It measures nothing, and ignores contention between jobs. Read model.go and table.go first.
package throughput
