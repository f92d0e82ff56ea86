// Package store keeps checkpoint images in directories: generations of manifests, and packs of
// content-addressed chunks that they share. FORMAT.md at the root of the repository has it byte by
// byte.
//
// A directory may belong to somebody whom the caller does not trust, who changes it meanwhile.
// Everything is opened below one descriptor, through no link, and is a regular file or nothing;
// every content is verified against its name when it is read; what is decoded is bounded by what
// was read. A change is made complete beside what is there, brought to the disk, and takes effect
// by one rename.
//
// It knows no processes and no GPUs, and it does not judge seals: package ckpt/image does, with
// keys that its caller has.
//
// Read dir.go and transaction.go first; package contents below it is what moves the bytes.
package store
