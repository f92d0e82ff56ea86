package worker

import "unsafe"

// addressOf returns the address of a slice's first element.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
