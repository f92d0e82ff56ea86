// Package archive makes packed code of the zip files that clients send which have no zstd: the same
// tar archive that cli/cluster/code packs, which agents unpack.
//
// A zip file is hostile. What lies outside of its directory, what is there twice, and what is no
// file, directory or link is refused by name; bytes and entries are counted while they are
// unpacked, not believed. Nothing is written to a disk. Read zip.go.
package archive
