package space

import "unsafe"

// addressOf is where a slice lies, for alignment only.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
