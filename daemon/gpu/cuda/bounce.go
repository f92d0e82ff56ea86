package cuda

import (
	"errors"
	"io"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// errHost ends a copy whose host side failed. It is not a fault of the device; see gpu.HostMemory.
var errHost = errors.New("the program's memory cannot be accessed")

// errStopping ends a copy in a stopping context.
var errStopping = errors.New("the context is stopping")

// bounceCopy copies between the device and memory that the driver does not know, or within host
// memory, through bounce buffers. While the driver works on one buffer, the other is filled or
// drained. It returns when the host's side is done.
func (s *Stream) bounceCopy(w gpu.Copy) (err error) {
	var carry func(dst, src gpu.Place, width, rows uint64) error
	r := &doubleBuffer{stream: s}
	switch {
	case w.Dst.Host == nil:
		carry = r.upload
	case w.Src.Host == nil:
		carry = r.download
	default:
		if s.drain(); s.context.stopping() { // earlier work may still use the memory
			return nil
		}
		carry = r.hostToHost
	}
	err = w.EachPlane(func(dst, src gpu.Place, width, rows uint64) error {
		return forEachPiece(dst, src, width, rows, carry)
	})
	if ended := r.finish(); err == nil {
		err = ended
	}
	if errors.Is(err, errHost) || errors.Is(err, errStopping) {
		return nil
	}
	return err
}

// forEachPiece splits rows into pieces that fit a buffer: many rows, or a part of one.
func forEachPiece(dst, src gpu.Place, width, rows uint64, do func(dst, src gpu.Place, width, rows uint64) error) error {
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
type doubleBuffer struct {
	stream *Stream
	slots  [2]slot
	at     int
}

// slot is one of the two buffers.
type slot struct {
	buffer []byte
	// done is reached when the driver no longer uses the buffer; nil if it does not.
	done *eventRecord
	// empty copies the buffer's content to the host; nil if there is none.
	empty func() error
}

// next returns the slot that was used longest ago, ready for reuse.
func (r *doubleBuffer) next() (*slot, error) {
	t := &r.slots[r.at%len(r.slots)]
	r.at++
	if err := r.waitSlot(t); err != nil {
		return nil, err
	}
	if t.buffer == nil {
		c := r.stream.context
		buffer, err := c.buffers.get()
		if err != nil {
			return nil, c.driverErr("pin a buffer", err)
		}
		t.buffer = buffer
	}
	return t, nil
}

// waitSlot waits until the driver no longer uses a slot, and empties it.
func (r *doubleBuffer) waitSlot(t *slot) error {
	if t.done == nil {
		return nil
	}
	err := t.done.wait()
	t.done.release()
	empty := t.empty
	t.done, t.empty = nil, nil
	switch {
	case r.stream.context.stopping():
		return errStopping
	case err == nil && empty != nil:
		return empty()
	}
	return err
}

// issue gives the driver a copy from or to a slot.
func (r *doubleBuffer) issue(t *slot, w gpu.Copy) error {
	s := r.stream
	if s.context.stopping() {
		return errStopping
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setTail(nil)
	err := s.context.driverErr("copy", s.copyOnDevices(w))
	if err == nil {
		t.done, err = s.tailRecord()
	}
	return err
}

// finish empties the remaining slots, oldest first, and returns the buffers to the pool, those in
// use by the driver later.
func (r *doubleBuffer) finish() (err error) {
	for range r.slots {
		t := &r.slots[r.at%len(r.slots)]
		r.at++
		if t.empty != nil && err == nil {
			err = r.waitSlot(t)
		}
		if t.buffer != nil {
			r.release(t)
		}
	}
	return err
}

// release returns a slot's buffer to the pool, at once or when the driver no longer uses it.
func (r *doubleBuffer) release(t *slot) {
	s, buffer := r.stream, t.buffer
	if t.done == nil {
		s.context.buffers.put(buffer)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addCompletionAfter(completion{after: t.done, run: func() { s.context.buffers.put(buffer) }, own: true})
}

// packedPlace returns the place of contiguous rows in a buffer.
func packedPlace(buffer []byte, width uint64) gpu.Place {
	return gpu.Place{Address: addressOf(buffer), RowPitch: width}
}

// upload copies rows from host memory to the device.
func (r *doubleBuffer) upload(dst, src gpu.Place, width, rows uint64) error {
	t, err := r.next()
	if err != nil {
		return err
	}
	buffer := t.buffer[:width*rows]
	if !src.HostRows(buffer, width, src.Host.ReadAt) {
		return errHost
	}
	return r.issue(t, gpu.Copy{Dst: dst, Src: packedPlace(buffer, width), Extent: [3]uint64{width, rows, 1}})
}

// download copies rows from the device to host memory.
func (r *doubleBuffer) download(dst, src gpu.Place, width, rows uint64) error {
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
	return r.issue(t, gpu.Copy{Dst: packedPlace(buffer, width), Src: src, Extent: [3]uint64{width, rows, 1}})
}

// hostToHost copies from host memory to host memory; one of them may be another device's.
func (r *doubleBuffer) hostToHost(dst, src gpu.Place, width, rows uint64) error {
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

// hostOnly makes a copy that touches no device memory one for the host queue. The driver would wait
// in the call until the stream has done the copy. The session's lock would be held, so a call of
// another thread that the stream waits for would never come.
func (c *Context) hostOnly(w gpu.Copy) gpu.Copy {
	dst, src := c.hostPlace(w.Dst), c.hostPlace(w.Src)
	if dst.Host == nil || src.Host == nil || peerMemory(dst) != nil || peerMemory(src) != nil {
		return w
	}
	w.Dst, w.Src = dst, src
	return w
}

// hostPlace returns a place with the host memory that MapHost has mapped there, if any.
func (c *Context) hostPlace(p gpu.Place) gpu.Place {
	d := c.device
	if p.Host != nil || d.inWindow(p.Address) {
		return p
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if mapped := d.table.find(p.Address); mapped != nil && mapped.host != nil {
		p.Host = mappedHost{mapped.Address, mapped.host}
	}
	return p
}

// mappedHost is host memory of MapHost: it has the same address in this process.
type mappedHost struct {
	address uint64
	memory  []byte
}

// ReadAt copies from the memory at an address.
func (h mappedHost) ReadAt(p []byte, address int64) (int, error) {
	part, err := h.part(address, len(p))
	return copy(p, part), err
}

// WriteAt copies to the memory at an address.
func (h mappedHost) WriteAt(p []byte, address int64) (int, error) {
	part, err := h.part(address, len(p))
	return copy(part, p), err
}

// part returns up to n bytes at an address, and io.ErrUnexpectedEOF if there are fewer.
func (h mappedHost) part(address int64, n int) ([]byte, error) {
	at := uint64(address) - h.address
	if at > uint64(len(h.memory)) {
		return nil, io.ErrUnexpectedEOF
	}
	if rest := h.memory[at:]; len(rest) < n {
		return rest, io.ErrUnexpectedEOF
	}
	return h.memory[at:][:n], nil
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

// stageCopy stages the source of a small copy from host memory, so that the copy can go to the
// driver at once. Other items stay as they are. done is set if the host's side failed and nothing
// is left to do. mu is held.
func (s *Stream) stageCopy(it *item) (done bool, err error) {
	w, ok := it.work.(gpu.Copy)
	if !ok || w.Src.Host == nil || peerMemory(w.Src) != nil || w.Dst.Host != nil || s.closed || s.context.stopping() {
		return false, nil
	}
	bytes := w.Extent[0] * w.Extent[1]
	if bytes == 0 || bytes > gpu.EarlyBytes || w.Extent[2] != 1 {
		return false, nil
	}
	buffer, err := s.stageRoom(int(bytes))
	if err != nil {
		return false, err
	}
	if !w.Src.HostRows(buffer, w.Extent[0], w.Src.Host.ReadAt) {
		return true, nil
	}
	w.Src = packedPlace(buffer, w.Extent[0])
	it.work = w
	return false, nil
}

// stageRoom returns a part of the stream's staging buffer. A full buffer returns to the pool when
// the driver has passed this point. mu is held.
func (s *Stream) stageRoom(bytes int) ([]byte, error) {
	const align = 256
	if s.stage != nil && s.staged+bytes > len(s.stage) {
		full := s.stage
		s.stage = nil
		if err := s.put(item{work: gpu.Completion{Func: func() { s.context.stages.put(full) }}, own: true}); err != nil {
			return nil, err // the driver frees the buffer with the context
		}
	}
	if s.stage == nil {
		stage, err := s.context.stages.get()
		if err != nil {
			return nil, s.context.driverErr("pin a buffer", err)
		}
		s.stage, s.staged = stage, 0
	}
	part := s.stage[s.staged:][:bytes]
	s.staged += (bytes + align - 1) &^ (align - 1)
	return part, nil
}
