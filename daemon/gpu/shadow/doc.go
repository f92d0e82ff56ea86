// Package shadow keeps copies of chunks in device memory (gpu.Shadower) for any backend that can map memory and copy within it.
//
// A Room is addresses of a backend's own, apart from those of the program. Memory is mapped there in blocks, before the program
// is stopped, as mapping takes longer than copying; and unmapped when the checkpoint ends, or when the program needs the memory
// and the block's copies were read. Never more is taken than is left to others. It is no part of the contract: a backend may offer shadows in another way. Read room.go.
package shadow
