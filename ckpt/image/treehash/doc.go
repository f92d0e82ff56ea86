// Package treehash computes BLAKE3, fast for contents with the length of most chunks: a power of
// two of at least 16 KiB. It hashes 16 leaves at a time with AVX-512, if the processor has it.
// Everything else is left to github.com/zeebo/blake3, with the same result.
//
// Every byte that is saved or restored is hashed, which is why this exists. Read sum.go.
package treehash
