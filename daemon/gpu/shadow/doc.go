// Package shadow keeps copies of chunks in device memory (gpu.Shadower) for any backend that can
// allocate memory and copy within it.
//
// A Room gets memory in blocks, apart from the program's: before the program is stopped, as getting
// it takes longer than copying. It gives it back when the checkpoint ends, or when the program
// needs it and the block's copies were read. Never more is taken than is left to others. It is no
// part of the contract: a backend may offer shadows in another way. Read room.go.
package shadow
