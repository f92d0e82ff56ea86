// Package archive opens image directories for phosd: for a restore (open.go), for a checkpoint
// (target.go), and from streams (stream.go). It also makes the private work directories of
// checkpoints and restores.
//
// It decides with whose rights files are accessed and which keys are accepted. The image format is
// package store's.
//
// Tested by tests/checkpoint and tests/policy. Read Archive.Open.
package archive
