// Package contents stores contents of up to a chunk in packs: files of records that are found by an
// index, or by scanning. A Writer fills one pack. A Reader finds contents in many packs by their
// hashes, and verifies each when it is read. Memory is bounded by what was read.
//
// It does not depend on directories and generations: package ckpt/store opens the files.
//
// Locks: Writer.mu, writeback.mu, file.mu and the mutex of one PutFile are leaves; none
// is held while another is taken. Read writer.go and reader.go first; index.go reads damaged packs.
package contents
