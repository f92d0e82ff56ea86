// Package heap allocates addresses: Heap in the window of one GPU, Arena in the pinned arena of a
// session. Both are deterministic: the same sequence of requests yields the same addresses. So a
// restored session continues to allocate as the saved one would have.
//
// Neither accesses memory. Heap gets chunks from a Backing, Arena gets pages from a Store; package
// session connects them to a gpu.Memory and to the arena's file. The two locks, Heap's and Arena's,
// are never held at the same time. Read free.go first: both allocators use the same sorted free
// list.
package heap
