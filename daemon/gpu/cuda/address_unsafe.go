package cuda

import "unsafe"

// addressOf returns the address of memory.
func addressOf(memory []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
}
