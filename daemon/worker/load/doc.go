// Package load brings the memory of a session back from an image: lazily, where the memory can
// leave chunks absent until they are touched (gpu.Lazy), with the rest following in the background
// in the order in which it was used before the checkpoint, or all of it before the program runs.
//
// A session that is made again allocates through a Backing, which puts the image's content behind
// every address that the image knows and zeros behind all others. Contents are verified as they are
// read, straight into the memory that they belong to; one that is missing or damaged poisons the
// context of whoever touches it, and never passes for zeros.
//
// What is content-addressed and where it lies is package ckpt/store. Read loader.go first.
package load
