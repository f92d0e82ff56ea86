package digest

import (
	"io"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// region is memory of this process as the host side of a copy.
type region []byte

// ReadAt copies from it.
func (r region) ReadAt(p []byte, at int64) (int, error) {
	n := copy(p, r[min(at, int64(len(r))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt copies to it.
func (r region) WriteAt(p []byte, at int64) (int, error) {
	n := copy(r[min(at, int64(len(r))):], p)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// copyTo returns a copy from the region to device memory.
func (r region) copyTo(address uint64) gpu.Copy {
	return gpu.Copy{Dst: gpu.Place{Address: address}, Src: gpu.Place{Host: r}, Extent: [3]uint64{uint64(len(r)), 1, 1}}
}

// copyFrom returns a copy from device memory to the region.
func (r region) copyFrom(address uint64) gpu.Copy {
	return gpu.Copy{Dst: gpu.Place{Host: r}, Src: gpu.Place{Address: address}, Extent: [3]uint64{uint64(len(r)), 1, 1}}
}
