// Package archive is phosd's way to images: it opens those that a user may restore (open.go), says
// where a checkpoint is written (target.go), takes images from streams (stream.go), and makes the
// private directories that checkpoints and restores work in.
//
// Whose rights count, and which keys, is decided here; what an image is made of is package store's.
// Read Archive.Open.
package archive
