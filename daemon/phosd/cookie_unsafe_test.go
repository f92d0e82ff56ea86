package phosd_test

import "unsafe"

func cookieAddress() uint64 { return uint64(uintptr(unsafe.Pointer(&cookie[0]))) }
