package soft

import (
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// splitBytes is the smallest device copy that is split among cores. Below it, starting goroutines
// costs more than it saves.
const splitBytes = 4 << 20

// copyPlanes runs a copy plane by plane.
func (c *Context) copyPlanes(w gpu.Copy) error {
	return w.EachPlane(func(dst, src gpu.Place, width, rows uint64) error {
		if rows == 1 {
			return c.copyLine(dst, src, width)
		}
		return c.copyRows(dst, src, width, rows)
	})
}

// copyLine copies bytes that are contiguous on both sides.
func (c *Context) copyLine(dst, src gpu.Place, bytes uint64) error {
	switch {
	case dst.Host == nil && src.Host == nil:
		return c.copyDevice(dst.Address, src.Address, bytes)
	case src.Host == nil:
		return c.deviceToHost(dst, src.Address, bytes)
	case dst.Host == nil:
		return c.hostToDevice(dst.Address, src, bytes)
	}
	return hostToHost(dst, src, bytes)
}

// copyDevice copies between device addresses. Large copies use all cores.
func (c *Context) copyDevice(dst, src, bytes uint64) error {
	overlaps := dst < src+bytes && src < dst+bytes
	if bytes < splitBytes || overlaps {
		return c.memory.Copy(dst, src, bytes)
	}
	return c.split(bytes, func(at, n uint64) error { return c.memory.Copy(dst+at, src+at, n) })
}

// split divides memory work among the cores that no kernel uses, in parts of whole chunks.
func (c *Context) split(bytes uint64, do func(at, n uint64) error) error {
	parts := uint64(c.backend.idleCores())
	if parts < 2 || bytes == 0 {
		return do(0, bytes)
	}
	part := (bytes/parts + gpu.ChunkBytes) &^ (gpu.ChunkBytes - 1)
	errs := make([]error, (bytes+part-1)/part)
	var group sync.WaitGroup
	for i := range errs[1:] {
		at := uint64(i+1) * part
		group.Go(func() { errs[i+1] = do(at, min(part, bytes-at)) })
	}
	errs[0] = do(0, min(part, bytes))
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// hostError is a failure on the host side of a copy. It ends the copy but is not a device fault;
// see gpu.HostMemory.
type hostError struct{ error }

// dropHostError returns nil for a hostError and any other error unchanged.
func dropHostError(err error) error {
	var fromHost hostError
	if errors.As(err, &fromHost) {
		return nil
	}
	return err
}

// hostToDevice reads host memory directly into device memory, chunk by chunk.
func (c *Context) hostToDevice(dst uint64, src gpu.Place, bytes uint64) error {
	at := int64(src.Address)
	err := c.memory.Access(gpu.Range{Address: dst, Bytes: bytes}, true, func(piece []byte) error {
		if n, err := src.Host.ReadAt(piece, at); n < len(piece) {
			return hostError{fmt.Errorf("read program memory: %w", err)}
		}
		at += int64(len(piece))
		return nil
	})
	return dropHostError(err)
}

// deviceToHost writes device memory directly to host memory, chunk by chunk.
func (c *Context) deviceToHost(dst gpu.Place, src, bytes uint64) error {
	at := int64(dst.Address)
	err := c.memory.Access(gpu.Range{Address: src, Bytes: bytes}, false, func(piece []byte) error {
		if n, err := dst.Host.WriteAt(piece, at); n < len(piece) {
			return hostError{fmt.Errorf("write program memory: %w", err)}
		}
		at += int64(len(piece))
		return nil
	})
	return dropHostError(err)
}

// stagingBytes is the size of the buffer for copies that have no direct path.
const stagingBytes = 1 << 20

// hostToHost copies between two host memories through a buffer. Host errors end the copy silently.
func hostToHost(dst, src gpu.Place, bytes uint64) error {
	buffer := make([]byte, min(bytes, stagingBytes))
	for at := uint64(0); at < bytes; {
		piece := buffer[:min(uint64(len(buffer)), bytes-at)]
		if n, _ := src.Host.ReadAt(piece, int64(src.Address+at)); n < len(piece) {
			return nil
		}
		if n, _ := dst.Host.WriteAt(piece, int64(dst.Address+at)); n < len(piece) {
			return nil
		}
		at += uint64(len(piece))
	}
	return nil
}
