// Package image is the format of checkpoint images: names of chunks, trees of what was saved,
// manifests and their seals. It reads and writes bytes and touches no file; package ckpt/store
// keeps them. FORMAT.md has it byte by byte.
//
// Everything decoded here may have been made by an enemy: no input makes a decoder panic, or
// allocate more than a small multiple of its own length.
//
// Read tree.go, then manifest.go.
package image
