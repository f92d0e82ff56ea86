package cuda

import (
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
)

const (
	// bufferBytes is the size of the pinned buffers between the device and memory that is not pinned. A processor fills one in
	// some 200 microseconds, beside which it does not matter that the driver is asked for each; and it still finds in its
	// cache what it has put there.
	bufferBytes = 2 << 20
	// stageBytes is what a stream has for small copies, of which the largest fits four times.
	stageBytes = 4 * gpu.EarlyBytes
)

// bufferPool keeps pinned memory of some size that is not in use. It goes with the context.
type bufferPool struct {
	bytes int

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
	return c.driver.HostAlloc(c.native, p.bytes)
}

func (p *bufferPool) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, b)
}

// Stages says that small copies out of host memory are as quick as can be: their bytes are taken at once.
func (s *Stream) Stages() bool { return true }

// early takes the bytes of a small copy from host memory to the device, so that the driver can be given the rest, and nothing
// waits. What is no such copy stays as it is; done says that there is nothing left to do, as the host's side failed. mu is held.
func (s *Stream) early(it *item) (done bool, err error) {
	w, is := it.work.(gpu.Copy)
	if !is || w.Src.Host == nil || peer(w.Src) != nil || w.Dst.Host != nil || s.closed || s.context.stopping() {
		return false, nil
	}
	bytes := w.Extent[0] * w.Extent[1]
	if bytes == 0 || bytes > gpu.EarlyBytes || w.Extent[2] != 1 {
		return false, nil
	}
	buffer, err := s.room(int(bytes))
	if err != nil {
		return false, err
	}
	if !w.Src.HostRows(buffer, w.Extent[0], w.Src.Host.ReadAt) {
		return true, nil
	}
	w.Src = packed(buffer, w.Extent[0])
	it.work = w
	return false, nil
}

// room is a part of the stream's staging memory. When it has been handed out, the driver's progress brings it back, and there is
// other. mu is held.
func (s *Stream) room(bytes int) ([]byte, error) {
	const align = 256
	if s.stage != nil && s.staged+bytes > len(s.stage) {
		full := s.stage
		s.stage = nil
		if err := s.put(item{work: gpu.Tell{Func: func() { s.context.stages.put(full) }}, own: true}); err != nil {
			return nil, err // and the memory goes with the context
		}
	}
	if s.stage == nil {
		stage, err := s.context.stages.take(s.context)
		if err != nil {
			return nil, s.context.noted("pin a buffer", err)
		}
		s.stage, s.staged = stage, 0
	}
	part := s.stage[s.staged:][:bytes]
	s.staged += (bytes + align - 1) &^ (align - 1)
	return part, nil
}
