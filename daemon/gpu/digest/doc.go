// Package digest computes keyed digests, which show whether a chunk of memory has changed
// (gpu.Digester). The CPU and a GPU kernel compute the same 128 bits.
//
// The function is two levels of sums of products with a secret key stream. A GPU computes it as
// fast as it reads its memory, with no other instruction than the 32-bit multiply-add. DESIGN.md in
// this folder specifies it byte by byte, with its bound: two contents chosen without the key have
// the same digest with a probability of at most 2^-124.
//
// A digest is neither a name nor an authentication code: the key follows from a few digests by
// linear algebra. So keys are random, live as long as a process, and neither keys nor digests ever
// leave the process. Contents are named by BLAKE3 (package image), which is several times slower.
//
// Read DESIGN.md, then digest.go, then kernel.ptx.
package digest
