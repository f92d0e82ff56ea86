//go:build amd64

package lanes

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func load32AVX(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32

//go:noescape
func store32AVX(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32

//go:noescape
func load128AVX(v *V128, memory *Pointers, distance uintptr, mask uint32)

//go:noescape
func store128AVX(v *V128, memory *Pointers, distance uintptr, mask uint32)

// Load128 loads 16 bytes for each lane of a mask, at a distance from its pointer. With AVX, a load
// never sees part of another thread's Store128. (Load128 is not a function variable, which would
// make callers' arrays escape to the heap.)
func Load128(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	if cpu.X86.HasAVX {
		load128AVX(v, memory, distance, mask)
		return
	}
	loadHalves(v, memory, distance, mask)
}

// Store128 is the same for stores.
func Store128(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	if cpu.X86.HasAVX {
		store128AVX(v, memory, distance, mask)
		return
	}
	storeHalves(v, memory, distance, mask)
}
