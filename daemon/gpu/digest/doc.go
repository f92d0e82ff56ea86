// Package digest computes the keyed digests that say whether a chunk of memory has changed
// (gpu.Digester): on the CPU, and as a kernel on a GPU, to the same 128 bits.
//
// The function is two levels of sums of products with a secret key stream, made so that a GPU
// computes it as fast as it reads its memory, with no instruction but the 32-bit multiply-add.
// DESIGN.md beside this file says it byte by byte, with its bound: two contents chosen without the
// key have the same digest with a probability of at most 2^-124.
//
// It is no name, and no authentication towards anybody who sees digests: from a few of them the key
// follows by linear algebra. So keys are random, live as long as a process, and neither they nor
// digests ever leave it. Names of contents are BLAKE3 (package image), which costs several times as
// much.
//
// Read DESIGN.md, then digest.go, then kernel.ptx.
package digest
