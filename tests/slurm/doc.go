// Package slurm runs docs/slurm.md, with the Slurm of the distribution: a job is preempted, saved,
// queued again, restored, and ends with the right result.
package slurm
