// Package policy tests what phosd does with checkpoints beside taking them: checkpoints by policy,
// what phosd remembers of them after a crash, traces, streams, and cuts over several programs. All
// of it runs for real: phosd, workers, programs.
package policy
