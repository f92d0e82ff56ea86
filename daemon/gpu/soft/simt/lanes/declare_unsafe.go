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

// Load128 reads 16 bytes for each lane of a mask, at a distance from its place. Nobody sees a part
// of what another thread's Store128 writes, where the processor has AVX. (A variable function would
// have callers' arrays escape to the heap.)
func Load128(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	if cpu.X86.HasAVX {
		load128AVX(v, memory, distance, mask)
		return
	}
	loadHalves(v, memory, distance, mask)
}

// Store128 is the same for writing.
func Store128(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	if cpu.X86.HasAVX {
		store128AVX(v, memory, distance, mask)
		return
	}
	storeHalves(v, memory, distance, mask)
}
