package worker

import "unsafe"

// addressOf is where a slice lies.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
