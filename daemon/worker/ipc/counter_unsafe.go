package ipc

import (
	"sync/atomic"
	"unsafe"
)

func (c *Counter) asked() *atomic.Uint64   { return (*atomic.Uint64)(unsafe.Pointer(&c.data[0])) }
func (c *Counter) reached() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&c.data[64])) }
