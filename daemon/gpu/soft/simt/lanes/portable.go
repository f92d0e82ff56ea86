//go:build !amd64

package lanes

// Load128 loads 16 bytes for each lane of a mask, at a distance from its pointer.
func Load128(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	loadHalves(v, memory, distance, mask)
}

// Store128 is the same for stores.
func Store128(v *V128, memory *Pointers, distance uintptr, mask uint32) {
	storeHalves(v, memory, distance, mask)
}
