package cuda

import (
	"sync"

	"github.com/phos-gpu/phos/cgo/cudadrv"
)

// What a Memory's ReadAt and WriteAt copy goes beside all streams of the session, each call by
// streams of its own: several at a time, as those of a checkpoint, do not wait for each other, nor
// for the kernel that digests, so that copying, digesting and writing overlap. The driver never
// sees memory of Go's, which may move, and lie where the driver looks for a device's: copies go
// through pinned buffers, two in turn, unless the memory is pinned itself.

// copyOut copies at once.
func (c *Context) copyOut(p []byte, from uint64) (int, error) {
	return c.through("read memory", p, way{
		give: func(stream cudadrv.Stream, buffer []byte, at uint64) error {
			return c.driver.CopyOut(c.native, buffer, from+at, stream)
		},
		after: func(piece, buffer []byte) { copy(piece, buffer) },
	})
}

// copyIn is copyOut the other way.
func (c *Context) copyIn(to uint64, p []byte) (int, error) {
	return c.through("write memory", p, way{
		before: func(piece, buffer []byte) { copy(buffer, piece) },
		give: func(stream cudadrv.Stream, buffer []byte, at uint64) error {
			return c.driver.CopyIn(c.native, to+at, buffer, stream)
		},
	})
}

// way is how memory is copied: give gives the driver a copy with pinned memory. Where that is a
// buffer, before fills it, and after empties it; either may be nil.
type way struct {
	before, after func(piece, buffer []byte)
	give          func(stream cudadrv.Stream, buffer []byte, at uint64) error
}

// through copies p, in pieces of a buffer's size unless it is pinned, and says how far it came.
func (c *Context) through(op string, p []byte, w way) (done int, err error) {
	if c.backend.pinned.holds(p) {
		t := turn{context: c, way: &way{give: w.give}, buffer: p}
		err := t.start(p, 0)
		if err == nil {
			err = t.finish()
		}
		if t.end(false); err != nil {
			return 0, c.noted(op, err)
		}
		return len(p), nil
	}
	turns := [2]turn{{context: c, way: &w}, {context: c, way: &w}}
	defer turns[0].end(true)
	defer turns[1].end(true)
	given := 0
	for i := 0; done < len(p); i++ {
		t := &turns[i%2]
		done += len(t.piece)
		if err := t.finish(); err != nil {
			return done - len(t.piece), c.noted(op, err)
		}
		if given < len(p) {
			piece := p[given:min(given+bufferBytes, len(p))]
			if err := t.start(piece, uint64(given)); err != nil {
				return done, c.noted(op, err)
			}
			given += len(piece)
		}
	}
	return done, nil
}

// turn is one of the buffers of a copy, and its stream.
type turn struct {
	context *Context
	way     *way
	stream  cudadrv.Stream
	buffer  []byte
	piece   []byte // under way; nil where nothing is
}

// start gives the driver a piece.
func (t *turn) start(piece []byte, at uint64) (err error) {
	c := t.context
	if t.stream == 0 {
		if t.stream, err = c.asides.take(); err != nil {
			return err
		}
	}
	if t.buffer == nil {
		if t.buffer, err = c.buffers.take(); err != nil {
			return err
		}
	}
	if t.way.before != nil {
		t.way.before(piece, t.buffer)
	}
	if err := t.way.give(t.stream, t.buffer[:len(piece)], at); err != nil {
		return err
	}
	t.piece = piece
	return nil
}

// finish waits for what was given.
func (t *turn) finish() error {
	if t.piece == nil {
		return nil
	}
	if err := t.context.driver.StreamSynchronize(t.context.native, t.stream); err != nil {
		return err
	}
	if t.way.after != nil {
		t.way.after(t.piece, t.buffer)
	}
	t.piece = nil
	return nil
}

// end gives back what the turn has, once the driver is done with it.
func (t *turn) end(buffer bool) {
	c := t.context
	if t.piece != nil {
		_ = c.driver.StreamSynchronize(c.native, t.stream) // another error is being reported
	}
	if t.stream != 0 {
		c.asides.put(t.stream)
	}
	if buffer && t.buffer != nil {
		c.buffers.put(t.buffer)
	}
}

// pins is memory of this process that is pinned for all devices.
type pins struct {
	mu    sync.RWMutex
	bytes map[uint64]uint64 // by address
}

func (p *pins) note(memory []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes == nil {
		p.bytes = map[uint64]uint64{}
	}
	p.bytes[addressOf(memory)] = uint64(len(memory))
}

func (p *pins) forget(memory []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.bytes, addressOf(memory))
}

// holds reports whether memory is the beginning of what was pinned at once, or all of it.
func (p *pins) holds(memory []byte) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return uint64(len(memory)) <= p.bytes[addressOf(memory)]
}
