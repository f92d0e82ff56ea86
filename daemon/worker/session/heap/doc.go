// Package heap decides where memory lives: Heap hands out addresses in the window of one GPU, Arena
// in the pinned arena of a session. Both recycle what is freed, and both are deterministic: the
// same sequence of requests gives the same addresses, which is what lets a restore put every
// allocation back where the program remembers it.
//
// Neither touches memory. Heap asks a Backing for chunks, Arena a Store for pages; package session
// connects them to a gpu.Memory and to the arena's file. Read free.go first: both allocators are
// made of the same sorted free list.
package heap
