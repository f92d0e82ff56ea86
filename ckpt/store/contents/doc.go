// Package contents keeps contents of up to a chunk in packs: files of records that are found by an
// index, or without it. A Writer fills one pack; a Reader finds contents by their names in many,
// and verifies each when it is read. What is decoded is bounded by what was read.
//
// It knows no directories and no generations: package ckpt/store does, and gives it open files.
//
// Read writer.go and reader.go first; index.go is how packs are read that are damaged.
package contents
