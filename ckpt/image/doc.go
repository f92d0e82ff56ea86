// Package image is the format of checkpoint images: hashes of contents, trees of saved entries,
// manifests and their seals. It encodes and decodes bytes and touches no file; package ckpt/store
// does that. FORMAT.md specifies every byte.
//
// Input may come from an attacker: no input makes a decoder panic, or allocate more than a small
// multiple of the input's length.
//
// Read tree.go, then manifest.go.
package image
