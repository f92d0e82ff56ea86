// Package store keeps checkpoint images in directories: generations of manifests, and the packs of
// content-addressed chunks that they share. FORMAT.md specifies every byte.
//
// A directory may belong to an untrusted user and change at any time. Everything is opened
// relative to one descriptor without following links, and must be a regular file. Every content is
// verified against its hash when it is read, and memory is bounded by what was read. A change is
// completed beside the existing files, synced, and takes effect by one rename.
//
// The package does not depend on processes and GPUs. It does not check seals: package ckpt/image
// does, with its caller's keys.
//
// Locks: Transaction.mu is the only mutex. The directory's flock is taken before it, by Begin, and
// released under it. Read dir.go and transaction.go first; package contents below moves the bytes.
package store
