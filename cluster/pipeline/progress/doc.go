// Package progress reads how a training with phos.pipeline is, which it says of itself: the step,
// the plan, which rank has which layers, and what the training has survived. It works out what the
// loss of each rank would do.
//
// What a training says comes from a program of a user: nothing of it is trusted. Read status.go.
package progress
