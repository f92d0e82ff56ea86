// Package throughput knows how fast jobs are on other GPUs than they ask for, by the model that
// they compute: more or fewer of them, of another type, on one node or on several.
//
// A Table has models: with numbers of our own (builtin.go), or with what a user has measured
// (read.go). Policies that give GPUs out by number ask it before they decide. Speeds hands the same
// answers to a simulation, so that a job that was given more GPUs really runs that much faster
// there, and no policy is judged by a dream.
//
// It measures nothing, and it knows nothing of contention between jobs. Read model.go and table.go
// first.
package throughput
