package lanes

import (
	"math/bits"
	"unsafe"
)

// V128 is 16 bytes for each lane.
type V128 = [32][2]uint64

// Pointers is a pointer for each lane.
type Pointers = [32]unsafe.Pointer

func loadHalves(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		v[i] = *(*[2]uint64)(unsafe.Add(memory[i], distance))
	}
}

func storeHalves(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		*(*[2]uint64)(unsafe.Add(memory[i], distance)) = v[i]
	}
}
