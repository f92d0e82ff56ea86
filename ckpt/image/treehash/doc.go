// Package treehash computes BLAKE3, fast for contents of the length that most chunks have: a power
// of two of at least 16 KiB. Their leaves are hashed 16 at a time with AVX-512 where the processor
// has it. Everything else, and everything on other processors, is done by github.com/zeebo/blake3,
// which this package agrees with in every bit.
//
// Names of contents are on the way of every byte that is saved or brought back, which is why this
// exists. Read sum.go.
package treehash
