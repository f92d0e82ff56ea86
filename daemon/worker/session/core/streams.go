package core

import (
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Stream is a driver stream. The legacy default stream and the per-thread ones have no object: they
// come and go with their context.
type Stream struct {
	Object   *object.Object
	Context  *Context
	Work     gpu.Stream
	Line     graph.Line
	Flags    uint32
	Priority int32
	// submitted counts the work given to the stream; the stream was seen idle when it was idleAt.
	submitted, idleAt uint64
	// ordered is the state of the other side, the legacy stream or all blocking ones, that this stream
	// waited for last.
	ordered uint64
	// mark is recorded at the end of the stream, for others to wait for, when submitted was markedAt.
	mark     gpu.Event
	markedAt uint64
	fence    fence
	backlog  *backlog
	units    int // of the backlog, not counted there yet
	// References counts the stream itself and the calls that wait for it; the last one closes what the
	// backend has.
	References atomic.Int32
}

// NonBlocking is the flag of streams that do not wait for the legacy stream.
const NonBlocking = 1

// Stream returns the stream of a handle, as the calling thread means it.
func (s *Core) Stream(call *Call, h abi.Handle) (*Stream, error) {
	if h > abi.StreamPerThread {
		st, err := Find[*Stream](s, abi.KindStream, h)
		if err != nil {
			return nil, err
		}
		if st.Context.Ending {
			return nil, &gpu.Error{Op: "find stream", Code: abi.ContextIsDestroyed}
		}
		return st, nil
	}
	c, err := s.Current(call)
	if err != nil {
		return nil, err
	}
	if h == abi.StreamPerThread {
		if st := c.PerThread[call.Slot]; st != nil {
			return st, nil
		}
		st, err := s.NewStream(c, 0, 0)
		if err == nil {
			c.PerThread[call.Slot] = st
		}
		return st, err
	}
	if c.Legacy == nil {
		if c.Legacy, err = s.NewLegacy(c); err != nil {
			return nil, err // and c.legacy is nil still
		}
	}
	return c.Legacy, nil
}

// NewLegacy makes the default stream of a context.
func (s *Core) NewLegacy(c *Context) (*Stream, error) {
	st, err := s.NewStream(c, 0, 0)
	if err == nil {
		st.Line.Legacy, st.Line.Blocking = true, false
	}
	return st, err
}

// NewStream makes a stream of a context.
func (s *Core) NewStream(c *Context, flags uint32, priority int32) (*Stream, error) {
	work, err := c.Device.GPU.NewStream(
		gpu.StreamOptions{NonBlocking: flags&NonBlocking != 0, Priority: priority},
	)
	if err != nil {
		return nil, err
	}
	st := &Stream{Context: c, Work: work, Flags: flags, Priority: priority, backlog: &s.Backlog}
	st.Line = graph.Line{Context: c.Object.Handle(), Blocking: flags&NonBlocking == 0}
	st.References.Store(1)
	c.Streams = append(c.Streams, st)
	return st, nil
}

// Close takes the stream out of its context.
func (st *Stream) Close() {
	for _, event := range []gpu.Event{st.mark, st.fence.event} {
		if event != nil {
			_ = event.Close() // a fault is reported by the context
		}
	}
	defer st.Drop()
	for i, other := range st.Context.Streams {
		if other == st {
			st.Context.Streams = append(st.Context.Streams[:i:i], st.Context.Streams[i+1:]...)
			break
		}
	}
}

// Drop gives up one use of the stream.
func (st *Stream) Drop() {
	if st.References.Add(-1) == 0 {
		_ = st.Work.Close()
	}
}

// Beside runs f, which waits for the stream, beside the ring.
func (st *Stream) Beside(call *Call, f func() error) error {
	release := st.Context.Hold([]*Stream{st})
	call.waitsFor = st.Handle()
	return call.Detach(func() error {
		defer release()
		return f()
	})
}

// Enqueue gives work to a stream that is not captured, in its place among the default stream's and
// the blocking ones'.
func (st *Stream) Enqueue(work gpu.Work) error {
	if err := st.Order(); err != nil {
		return err
	}
	return st.Submit(work)
}

// Submit gives work to the stream.
func (st *Stream) Submit(work gpu.Work) error {
	st.submitted++
	if st.Line.Blocking {
		st.Context.blocking++
	}
	if err := st.Work.Submit(work); err != nil {
		return err
	}
	st.count()
	return nil
}

// Order makes the next work of a stream wait for what the driver's implicit rule says: that of the
// legacy stream for all blocking streams of the context, that of a blocking one for the legacy
// stream.
func (st *Stream) Order() error {
	c := st.Context
	switch {
	case st.Line.Legacy:
		if len(c.Streams) == 1 || st.ordered == c.blocking {
			return nil
		}
		for _, other := range c.Streams {
			if other.Line.Blocking && !other.Line.Capturing() {
				if err := st.Await(other); err != nil {
					return err
				}
			}
		}
		st.ordered = c.blocking
	case st.Line.Blocking && c.Legacy != nil && st.ordered != c.Legacy.submitted:
		if err := st.Await(c.Legacy); err != nil {
			return err
		}
		st.ordered = c.Legacy.submitted
	}
	return nil
}

// Await makes a stream wait for all that another one has been given so far.
func (st *Stream) Await(other *Stream) error {
	mark, err := other.position()
	if err != nil || mark == nil {
		return err
	}
	return st.Work.Submit(gpu.Await{Event: mark})
}

// Join is Await that counts as work of the stream, which is not idle until then. Streams that are
// captured are left alone.
func (st *Stream) Join(other *Stream) error {
	if st == other || st.Line.Capturing() || other.Line.Capturing() {
		return nil
	}
	mark, err := other.position()
	if err != nil || mark == nil {
		return err
	}
	return st.Submit(gpu.Await{Event: mark})
}

// position returns an event that is reached when all is done that the stream has been given so far;
// nil if it is.
func (st *Stream) position() (gpu.Event, error) {
	if st.Idle() {
		return nil, nil
	}
	if st.mark == nil {
		mark, err := st.Context.Device.GPU.NewEvent(gpu.EventOptions{})
		if err != nil {
			return nil, err
		}
		st.mark, st.markedAt = mark, 0
	}
	if st.markedAt != st.submitted {
		if err := st.Work.Submit(gpu.Record{Event: st.mark}); err != nil {
			return nil, err
		}
		st.markedAt = st.submitted
	}
	return st.mark, nil
}

// Idle reports whether everything given to the stream is done. It is cheap when that was known
// before.
func (st *Stream) Idle() bool {
	if st.idleAt == st.submitted {
		return true
	}
	if !st.Work.Idle() {
		return false
	}
	st.idleAt = st.submitted
	return true
}

// Done reports whether the stream is idle, and for the legacy stream, whether all that it orders
// itself with is.
func (st *Stream) Done() bool {
	if !st.Idle() {
		return false
	}
	if st.Line.Legacy {
		for _, other := range st.Context.Streams {
			if other.Line.Blocking && !other.Idle() {
				return false
			}
		}
	}
	return true
}

// Ready reports whether work given to the stream now would begin at once.
func (st *Stream) Ready() bool {
	return st.Done() && (!st.Line.Blocking || st.Context.Legacy == nil || st.Context.Legacy.Idle())
}

// RequireUncaptured is the rule for calls that a captured stream cannot take, and for any use of
// the legacy stream.
func (s *Core) RequireUncaptured(st *Stream, op string) error {
	if st.Line.Legacy {
		return s.Captures.Implicit(st.Line.Context)
	}
	if st.Line.Capturing() {
		st.Line.Invalidate()
		return &gpu.Error{Op: op, Code: abi.StreamCaptureUnsupported, Detail: "the stream is being captured"}
	}
	return nil
}

// Save: a quiet stream has no counts worth keeping.
func (st *Stream) Save(*Encoder) saved.State {
	return &saved.Stream{Flags: st.Flags, Priority: st.Priority}
}
