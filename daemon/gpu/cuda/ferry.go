package cuda

import (
	"errors"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// errHost ends a copy whose host side failed. It is no fault of the device; see gpu.HostMemory.
var errHost = errors.New("the program's memory cannot be accessed")

// errStopping ends a copy in a context that stops, where nobody waits for the driver.
var errStopping = errors.New("the context stops")

// ferry copies between the device and memory that the driver does not know, by way of pinned
// buffers: while the driver copies from or to one, the other one is filled or emptied. It returns
// when the host's side is over.
func (s *Stream) ferry(w gpu.Copy) (err error) {
	var carry func(dst, src gpu.Place, width, rows uint64) error
	r := &relay{stream: s}
	switch {
	case w.Dst.Host == nil:
		carry = r.upload
	case w.Src.Host == nil:
		carry = r.download
	default:
		s.drain() // another device's memory may be what earlier work has written
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

// eachPart cuts rows into pieces that fit a buffer: many rows, or a part of one.
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

// relay is the two buffers that a copy goes through, in turn. More would not help: the driver is
// faster than the host.
type relay struct {
	stream *Stream
	slots  [2]slot
	at     int
}

// slot is one of them.
type slot struct {
	buffer []byte
	// mark is where the driver is done with it; nil when it is not at it.
	mark *mark
	// empty is what is to be done with what the driver has put there; nil where nothing is.
	empty func() error
}

// next is the slot that was used longest ago, ready to be used again.
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

// settle waits until the driver is done with a slot, and empties it.
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

// copy gives the driver a copy from or to a slot.
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

// end empties what is not empty yet, oldest first, and gives the buffers back: those that the
// driver still reads when it is done with them.
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

// packed is rows in a buffer, without gaps.
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
	// bufferBytes is the size of the pinned buffers between the device and memory that is not pinned.
	// A processor fills one in some 200 microseconds, beside which it does not matter that the driver
	// is asked for each; and it still finds in its cache what it has put there.
	bufferBytes = 2 << 20
	// stageBytes is what a stream has for small copies, of which the largest fits four times.
	stageBytes = 4 * gpu.EarlyBytes
)

// Stages says that small copies out of host memory are as quick as can be: their bytes are taken at
// once.
func (s *Stream) Stages() bool { return true }

// early takes the bytes of a small copy from host memory to the device, so that the driver can be
// given the rest, and nothing waits. What is no such copy stays as it is; done says that there is
// nothing left to do, as the host's side failed. mu is held.
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

// room is a part of the stream's staging memory. When it has been handed out, the driver's progress
// brings it back, and there is other. mu is held.
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
