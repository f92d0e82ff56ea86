// Package policy tests phosd's features around checkpoints: checkpoints by policy, the state after
// a crash, traces, streams, and checkpoints of several programs at once. phosd, workers and
// programs are real.
package policy
