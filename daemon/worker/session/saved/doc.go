// Package saved is the saved form of a session: everything except the content of memory. It is data
// and its encoding, and knows nothing about GPUs. Package session saves a session as a Session, and
// restores it from one.
//
// Each kind of object has a file with its fields and one function that both encodes and decodes
// them, so that the two cannot differ. Objects are in the order of creation, so references point
// backwards. Code comes first: it is most of the bytes, and an unchanged program's code stays at
// the same offsets, so that a store with fixed-size chunks already has it.
//
// The input is not trusted: no input makes Decode panic, or allocate more than a small multiple of
// its length. Package session checks that the objects are consistent.
//
// Decode is fuzzed here; tests of package session save and restore whole sessions. Read session.go
// first, then coder.go.
package saved
