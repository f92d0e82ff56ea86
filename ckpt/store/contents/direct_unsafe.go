package contents

import (
	"unsafe"

	"github.com/phos-gpu/phos/ckpt/image"
)

// pageAligned says whether a content begins at a page, as a device wants it that reads memory itself.
func pageAligned(content []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(content)))%image.PageBytes == 0
}
