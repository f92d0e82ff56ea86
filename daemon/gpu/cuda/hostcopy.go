package cuda

import (
	"sync"

	"github.com/phos-gpu/phos/cgo/cudadrv"
)

// Memory.ReadAt and WriteAt copy on side streams, apart from the session's streams. Each call uses
// its own, so that the concurrent copies of a checkpoint wait neither for each other nor for the
// digest kernel. The driver never sees Go memory, which may move or be in a device's window:
// copies go through two pinned buffers, unless the memory itself is pinned.

// copyOut copies from device memory and waits for it.
func (c *Context) copyOut(p []byte, from uint64) (int, error) {
	return c.copyHost("read memory", p, hostCopy{
		issue: func(stream cudadrv.Stream, buffer []byte, at uint64) error {
			return c.driver.CopyOut(c.native, buffer, from+at, stream)
		},
		drain: func(piece, buffer []byte) { copy(piece, buffer) },
	})
}

// copyIn copies to device memory and waits for it.
func (c *Context) copyIn(to uint64, p []byte) (int, error) {
	return c.copyHost("write memory", p, hostCopy{
		fill: func(piece, buffer []byte) { copy(buffer, piece) },
		issue: func(stream cudadrv.Stream, buffer []byte, at uint64) error {
			return c.driver.CopyIn(c.native, to+at, buffer, stream)
		},
	})
}

// hostCopy is the direction of a copy. issue gives the driver one piece in pinned memory. If that
// is a bounce buffer, fill fills it before, and drain empties it after; either may be nil.
type hostCopy struct {
	fill, drain func(piece, buffer []byte)
	issue       func(stream cudadrv.Stream, buffer []byte, at uint64) error
}

// copyHost copies p, in pieces of one buffer unless p is pinned. It returns how many bytes were
// copied.
func (c *Context) copyHost(op string, p []byte, w hostCopy) (done int, err error) {
	if c.backend.pinned.contains(p) {
		t := pieceCopy{context: c, ops: &hostCopy{issue: w.issue}, buffer: p}
		err := t.start(p, 0)
		if err == nil {
			err = t.finish()
		}
		if t.close(false); err != nil {
			return 0, c.driverErr(op, err)
		}
		return len(p), nil
	}
	turns := [2]pieceCopy{{context: c, ops: &w}, {context: c, ops: &w}}
	defer turns[0].close(true)
	defer turns[1].close(true)
	given := 0
	for i := 0; done < len(p); i++ {
		t := &turns[i%2]
		done += len(t.piece)
		if err := t.finish(); err != nil {
			return done - len(t.piece), c.driverErr(op, err)
		}
		if given < len(p) {
			piece := p[given:min(given+bufferBytes, len(p))]
			if err := t.start(piece, uint64(given)); err != nil {
				return done, c.driverErr(op, err)
			}
			given += len(piece)
		}
	}
	return done, nil
}

// pieceCopy is one of the two buffers of a copy, with its side stream.
type pieceCopy struct {
	context *Context
	ops     *hostCopy
	stream  cudadrv.Stream
	buffer  []byte
	piece   []byte // in flight, or nil
}

// start issues the copy of a piece.
func (t *pieceCopy) start(piece []byte, at uint64) (err error) {
	c := t.context
	if t.stream == 0 {
		if t.stream, err = c.sideStreams.get(); err != nil {
			return err
		}
	}
	if t.buffer == nil {
		if t.buffer, err = c.buffers.get(); err != nil {
			return err
		}
	}
	if t.ops.fill != nil {
		t.ops.fill(piece, t.buffer)
	}
	if err := t.ops.issue(t.stream, t.buffer[:len(piece)], at); err != nil {
		return err
	}
	t.piece = piece
	return nil
}

// finish waits for the piece in flight.
func (t *pieceCopy) finish() error {
	if t.piece == nil {
		return nil
	}
	if err := t.context.driver.StreamSynchronize(t.context.native, t.stream); err != nil {
		return err
	}
	if t.ops.drain != nil {
		t.ops.drain(t.piece, t.buffer)
	}
	t.piece = nil
	return nil
}

// close returns the stream, and the buffer if it is from the pool, once the driver no longer uses
// them.
func (t *pieceCopy) close(buffer bool) {
	c := t.context
	if t.piece != nil {
		_ = c.driver.StreamSynchronize(c.native, t.stream) // the caller already reports an error
	}
	if t.stream != 0 {
		c.sideStreams.put(t.stream)
	}
	if buffer && t.buffer != nil {
		c.buffers.put(t.buffer)
	}
}

// pins are the ranges of this process's memory that are pinned for all devices.
type pins struct {
	mu    sync.RWMutex
	bytes map[uint64]uint64 // by address
}

func (p *pins) add(memory []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes == nil {
		p.bytes = map[uint64]uint64{}
	}
	p.bytes[addressOf(memory)] = uint64(len(memory))
}

func (p *pins) remove(memory []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.bytes, addressOf(memory))
}

// contains reports whether memory is a pinned range, or the beginning of one.
func (p *pins) contains(memory []byte) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return uint64(len(memory)) <= p.bytes[addressOf(memory)]
}
