package space

import "unsafe"

// addressOf returns the address of a slice, for alignment only.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
