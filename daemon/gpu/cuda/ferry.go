package cuda

import (
	"errors"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// bufferBytes is the size of the pinned buffers between the device and memory that is not pinned.
const bufferBytes = 1 << 20

// bufferPool keeps pinned buffers that are not in use. They go with the context.
type bufferPool struct {
	mu   sync.Mutex
	free [][]byte
}

func (p *bufferPool) take(c *Context) ([]byte, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return b, nil
	}
	p.mu.Unlock()
	return c.driver.HostAlloc(c.native, bufferBytes)
}

func (p *bufferPool) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, b)
}

// errHost ends a copy whose host side failed. It is no fault of the device; see gpu.HostMemory.
var errHost = errors.New("the program's memory cannot be accessed")

// ferry copies between the device and memory that the driver does not know. The stream's earlier work is over first: it may
// have to do with that memory.
func (s *Stream) ferry(w gpu.Copy) error {
	s.drain()
	if s.context.stopping() {
		return nil
	}
	buffer, err := s.context.buffers.take(s.context)
	if err != nil {
		return s.context.noted("pin a buffer", err)
	}
	defer s.context.buffers.put(buffer)
	err = w.EachPlane(func(dst, src gpu.Place, width, rows uint64) error {
		return eachPart(width, rows, func(at, row, width, rows uint64) error {
			d, s1 := dst, src
			d.Address += row*d.RowPitch + at
			s1.Address += row*s1.RowPitch + at
			return s.ferryPart(d, s1, width, buffer[:width*rows])
		})
	})
	if errors.Is(err, errHost) {
		return nil
	}
	return err
}

// eachPart cuts rows into pieces that fit a buffer: many rows, or a part of one.
func eachPart(width, rows uint64, do func(at, row, width, rows uint64) error) error {
	if width > bufferBytes {
		for row := range rows {
			for at := uint64(0); at < width; at += bufferBytes {
				if err := do(at, row, min(bufferBytes, width-at), 1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	group := bufferBytes / width
	for row := uint64(0); row < rows; row += group {
		if err := do(0, row, width, min(group, rows-row)); err != nil {
			return err
		}
	}
	return nil
}

// ferryPart copies rows by way of a buffer, where they lie without gaps.
func (s *Stream) ferryPart(dst, src gpu.Place, width uint64, buffer []byte) error {
	rows := uint64(len(buffer)) / width
	packed := gpu.Place{Address: addressOf(buffer), RowPitch: width}
	if src.Host == nil {
		if err := s.copyAndWait(gpu.Copy{Dst: packed, Src: src, Extent: [3]uint64{width, rows, 1}}); err != nil {
			return err
		}
	} else if !src.HostRows(buffer, width, src.Host.ReadAt) {
		return errHost
	}
	if dst.Host == nil {
		return s.copyAndWait(gpu.Copy{Dst: dst, Src: packed, Extent: [3]uint64{width, rows, 1}})
	}
	if !dst.HostRows(buffer, width, dst.Host.WriteAt) {
		return errHost
	}
	return nil
}

func (s *Stream) copyAndWait(w gpu.Copy) error {
	c := s.context
	s.mu.Lock()
	s.endsWith(nil)
	err := s.copyOnDevices(w)
	s.mu.Unlock()
	if err == nil {
		err = c.driver.StreamSynchronize(c.native, s.native)
	}
	return c.noted("copy", err)
}
