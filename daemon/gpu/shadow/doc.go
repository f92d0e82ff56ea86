// Package shadow keeps copies of chunks in device memory (gpu.Shadower), for any backend that can
// allocate memory and copy within it.
//
// A Room allocates memory in blocks, apart from the program's memory. It does so before the program
// is paused, because allocating takes longer than copying. A block is freed when the checkpoint
// ends, or when the program needs the memory and all copies in the block were read. Shadows never
// take more than half of the free memory. The contract does not require this package: a backend may
// implement shadows differently. Read room.go.
package shadow
