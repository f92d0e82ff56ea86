package cuda

import (
	"errors"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// errHost ends a copy whose host side failed. It is not a fault of the device; see gpu.HostMemory.
var errHost = errors.New("the program's memory cannot be accessed")

// errStopping ends a copy in a stopping context.
var errStopping = errors.New("the context is stopping")

// bounceCopy copies between the device and memory that the driver does not know, through bounce
// buffers. While the driver works on one buffer, the other is filled or drained. It returns when
// the host's side is done.
func (s *Stream) ferry(w gpu.Copy) (err error) {
	var carry func(dst, src gpu.Place, width, rows uint64) error
	r := &relay{stream: s}
	switch {
	case w.Dst.Host == nil:
		carry = r.upload
	case w.Src.Host == nil:
		carry = r.download
	default:
		s.drain() // earlier work may still write the other device's memory
		carry = r.between
	}
	err = w.EachPlane(func(dst, src gpu.Place, width, rows uint64) error {
		return eachPart(dst, src, width, rows, carry)
	})
	if ended := r.end(); err == nil {
		err = ended
	}
	if errors.Is(err, errHost) || errors.Is(err, errStopping) {
		return nil
	}
	return err
}

// eachPart splits rows into pieces that fit a buffer: many rows, or a part of one.
func eachPart(dst, src gpu.Place, width, rows uint64, do func(dst, src gpu.Place, width, rows uint64) error) error {
	part := func(at, row, width, rows uint64) error {
		d, s := dst, src
		d.Address += row*d.RowPitch + at
		s.Address += row*s.RowPitch + at
		return do(d, s, width, rows)
	}
	if width > bufferBytes {
		for row := range rows {
			for at := uint64(0); at < width; at += bufferBytes {
				if err := part(at, row, min(bufferBytes, width-at), 1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	group := bufferBytes / width
	for row := uint64(0); row < rows; row += group {
		if err := part(0, row, width, min(group, rows-row)); err != nil {
			return err
		}
	}
	return nil
}

// doubleBuffer is the two buffers that a copy uses alternately. More would not help: the driver is
// faster than the host.
type relay struct {
	stream *Stream
	slots  [2]slot
	at     int
}

// slot is one of the two buffers.
type slot struct {
	buffer []byte
	// mark is reached when the driver no longer uses the buffer; nil if it does not.
	mark *mark
	// empty copies the buffer's content to the host; nil if there is none.
	empty func() error
}

// next returns the slot that was used longest ago, ready for reuse.
func (r *relay) next() (*slot, error) {
	t := &r.slots[r.at%len(r.slots)]
	r.at++
	if err := r.settle(t); err != nil {
		return nil, err
	}
	if t.buffer == nil {
		c := r.stream.context
		buffer, err := c.buffers.take()
		if err != nil {
			return nil, c.noted("pin a buffer", err)
		}
		t.buffer = buffer
	}
	return t, nil
}

// settle waits until the driver no longer uses a slot, and empties it.
func (r *relay) settle(t *slot) error {
	if t.mark == nil {
		return nil
	}
	err := t.mark.await()
	t.mark.drop()
	empty := t.empty
	t.mark, t.empty = nil, nil
	switch {
	case r.stream.context.stopping():
		return errStopping
	case err == nil && empty != nil:
		return empty()
	}
	return err
}

// issue gives the driver a copy from or to a slot.
func (r *relay) copy(t *slot, w gpu.Copy) error {
	s := r.stream
	if s.context.stopping() {
		return errStopping
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endsWith(nil)
	err := s.context.noted("copy", s.copyOnDevices(w))
	if err == nil {
		t.mark, err = s.here()
	}
	return err
}

// end empties the remaining slots, oldest first, and returns the buffers to the pool, those in use
// by the driver later.
func (r *relay) end() (err error) {
	for range r.slots {
		t := &r.slots[r.at%len(r.slots)]
		r.at++
		if t.empty != nil && err == nil {
			err = r.settle(t)
		}
		if t.buffer != nil {
			r.release(t)
		}
	}
	return err
}

func (r *relay) release(t *slot) {
	s, buffer := r.stream, t.buffer
	if t.mark == nil {
		s.context.buffers.put(buffer)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellAt(tell{mark: t.mark, do: func() { s.context.buffers.put(buffer) }, own: true})
}

// packed returns the place of contiguous rows in a buffer.
func packed(buffer []byte, width uint64) gpu.Place {
	return gpu.Place{Address: addressOf(buffer), RowPitch: width}
}

func (r *relay) upload(dst, src gpu.Place, width, rows uint64) error {
	t, err := r.next()
	if err != nil {
		return err
	}
	buffer := t.buffer[:width*rows]
	if !src.HostRows(buffer, width, src.Host.ReadAt) {
		return errHost
	}
	return r.copy(t, gpu.Copy{Dst: dst, Src: packed(buffer, width), Extent: [3]uint64{width, rows, 1}})
}

func (r *relay) download(dst, src gpu.Place, width, rows uint64) error {
	t, err := r.next()
	if err != nil {
		return err
	}
	buffer := t.buffer[:width*rows]
	t.empty = func() error {
		if !dst.HostRows(buffer, width, dst.Host.WriteAt) {
			return errHost
		}
		return nil
	}
	return r.copy(t, gpu.Copy{Dst: packed(buffer, width), Src: src, Extent: [3]uint64{width, rows, 1}})
}

// between copies from host memory to host memory; one of them may be another device's.
func (r *relay) between(dst, src gpu.Place, width, rows uint64) error {
	t, err := r.next()
	if err != nil {
		return err
	}
	buffer := t.buffer[:width*rows]
	if !src.HostRows(buffer, width, src.Host.ReadAt) || !dst.HostRows(buffer, width, dst.Host.WriteAt) {
		return errHost
	}
	return nil
}

const (
	// bufferBytes is the size of a bounce buffer. The CPU fills one in some 200 microseconds, so
	// the cost of a driver call per buffer does not matter, and the content is still in the CPU's
	// cache.
	bufferBytes = 2 << 20
	// stageBytes is the size of a stream's staging buffer, four times the largest staged copy.
	stageBytes = 4 * gpu.EarlyBytes
)

// Stages reports that small copies from host memory are staged at submission.
func (s *Stream) Stages() bool { return true }

// early stages the source of a small copy from host memory, so that the copy can go to the driver
// at once. Other items stay as they are. done is set if the host's side failed and nothing is left
// to do. mu is held.
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

// room returns a part of the stream's staging buffer. A full buffer returns to the pool when the
// driver has passed this point. mu is held.
func (s *Stream) room(bytes int) ([]byte, error) {
	const align = 256
	if s.stage != nil && s.staged+bytes > len(s.stage) {
		full := s.stage
		s.stage = nil
		if err := s.put(item{work: gpu.Tell{Func: func() { s.context.stages.put(full) }}, own: true}); err != nil {
			return nil, err // the driver frees the buffer with the context
		}
	}
	if s.stage == nil {
		stage, err := s.context.stages.take()
		if err != nil {
			return nil, s.context.noted("pin a buffer", err)
		}
		s.stage, s.staged = stage, 0
	}
	part := s.stage[s.staged:][:bytes]
	s.staged += (bytes + align - 1) &^ (align - 1)
	return part, nil
}
