// Package goodput replays published failures in virtual time: what a training makes of its machines
// if it restarts from checkpoints, if it plans again and loses the step, and as phos.pipeline goes
// on. The results are docs/goodput.md and its picture.
package goodput
