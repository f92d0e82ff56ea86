package contents

import (
	"sync/atomic"
	"unsafe"
)

// wordOf returns the word at the start of a mapping, which begins on a page.
func wordOf(mapped []byte) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&mapped[0])) }
