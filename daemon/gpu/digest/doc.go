// Package digest computes the keyed digests that say whether a chunk of memory has changed (gpu.Digester), on the CPU.
//
// The digest is GMAC under AES-128 with a fixed nonce: a polynomial in GF(2^128) whose coefficients are the content,
// evaluated at a secret point. Two contents of 2 MiB that are chosen without knowing the key have the same digest with a
// probability of at most 2^-110. It is no name: who knows the key can make contents that collide, so keys are random,
// live as long as a process, and never leave it. Names of contents are BLAKE3 (package image), which costs twice as much.
package digest
