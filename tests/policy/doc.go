// Package policy tests what phosd does with checkpoints beside taking them: those that nobody asks
// for, what it remembers of them over its own death, traces, streams, and cuts over several
// programs. All of it runs for real: phosd, workers, programs.
package policy
