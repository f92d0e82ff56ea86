// Package load restores the memory of a session from an image. If the memory can leave chunks
// absent until they are touched (gpu.LazyMapper), it loads lazily: the rest follows in the
// background, in the order of use before the checkpoint. Otherwise everything is loaded before the
// program runs.
//
// A restored session allocates through a Backing, which maps the image's content at the addresses
// that the image has, and zeros elsewhere. Contents are verified as they are read, directly into
// their memory. A missing or damaged chunk poisons the context that touches it; it is never read as
// zeros.
//
// The packs are the business of package ckpt/store. Read loader.go first.
package load
