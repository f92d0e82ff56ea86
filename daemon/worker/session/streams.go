package session

import (
	"fmt"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// stream is a driver stream. The legacy default stream and the per-thread ones have no object: they
// come and go with their context.
type stream struct {
	object   *object.Object
	context  *context
	work     gpu.Stream
	line     graph.Line
	flags    uint32
	priority int32
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
	// users counts the stream itself and the calls that wait for it; the last one closes what the
	// backend has.
	users atomic.Int32
}

const streamNonBlocking = 1

// stream returns the stream of a handle, as the calling thread means it.
func (s *Session) stream(call *Call, h abi.Handle) (*stream, error) {
	if h > abi.StreamPerThread {
		st, err := find[*stream](s, abi.KindStream, h)
		if err != nil {
			return nil, err
		}
		if st.context.ending {
			return nil, &gpu.Error{Op: "find stream", Code: abi.ContextIsDestroyed}
		}
		return st, nil
	}
	c, err := s.current(call)
	if err != nil {
		return nil, err
	}
	if h == abi.StreamPerThread {
		if st := c.perThread[call.Slot]; st != nil {
			return st, nil
		}
		st, err := s.newStream(c, 0, 0)
		if err == nil {
			c.perThread[call.Slot] = st
		}
		return st, err
	}
	if c.legacy == nil {
		if c.legacy, err = s.newLegacy(c); err != nil {
			return nil, err // and c.legacy is nil still
		}
	}
	return c.legacy, nil
}

// newLegacy makes the default stream of a context.
func (s *Session) newLegacy(c *context) (*stream, error) {
	st, err := s.newStream(c, 0, 0)
	if err == nil {
		st.line.Legacy, st.line.Blocking = true, false
	}
	return st, err
}

func (s *Session) newStream(c *context, flags uint32, priority int32) (*stream, error) {
	work, err := c.device.context.NewStream(
		gpu.StreamOptions{NonBlocking: flags&streamNonBlocking != 0, Priority: priority},
	)
	if err != nil {
		return nil, err
	}
	st := &stream{context: c, work: work, flags: flags, priority: priority, backlog: &s.backlog}
	st.line = graph.Line{Context: c.object.Handle(), Blocking: flags&streamNonBlocking == 0}
	st.users.Store(1)
	c.streams = append(c.streams, st)
	return st, nil
}

// close takes the stream out of its context.
func (st *stream) close() {
	for _, event := range []gpu.Event{st.mark, st.fence.event} {
		if event != nil {
			_ = event.Close() // a fault is reported by the context
		}
	}
	st.idleAt = st.submitted // for an executable graph that was launched here last
	defer st.drop()
	for i, other := range st.context.streams {
		if other == st {
			st.context.streams = append(st.context.streams[:i:i], st.context.streams[i+1:]...)
			break
		}
	}
}

// drop gives up one use of the stream.
func (st *stream) drop() {
	if st.users.Add(-1) == 0 {
		_ = st.work.Close()
	}
}

// hold keeps streams of a context usable for a call that waits beside the ring; letGo ends that.
func (c *context) hold(streams []*stream) (letGo func()) {
	for _, st := range streams {
		st.users.Add(1)
	}
	c.waiters.Add(1)
	return func() {
		for _, st := range streams {
			st.drop()
		}
		c.waiters.Done()
	}
}

// beside runs f, which waits for the stream, beside the ring.
func (st *stream) beside(call *Call, f func() error) error {
	letGo := st.context.hold([]*stream{st})
	call.waitsFor = st.handle()
	return call.Beside(func() error {
		defer letGo()
		return f()
	})
}

// enqueue gives work to a stream that is not captured, in its place among the default stream's and
// the blocking ones'.
func (st *stream) enqueue(work gpu.Work) error {
	if err := st.order(); err != nil {
		return err
	}
	return st.submit(work)
}

func (st *stream) submit(work gpu.Work) error {
	st.submitted++
	if st.line.Blocking {
		st.context.blocking++
	}
	if err := st.work.Submit(work); err != nil {
		return err
	}
	st.count()
	return nil
}

// order makes the next work of a stream wait for what the driver's implicit rule says: that of the
// legacy stream for all blocking streams of the context, that of a blocking one for the legacy
// stream.
func (st *stream) order() error {
	c := st.context
	switch {
	case st.line.Legacy:
		if len(c.streams) == 1 || st.ordered == c.blocking {
			return nil
		}
		for _, other := range c.streams {
			if other.line.Blocking && !other.line.Capturing() {
				if err := st.await(other); err != nil {
					return err
				}
			}
		}
		st.ordered = c.blocking
	case st.line.Blocking && c.legacy != nil && st.ordered != c.legacy.submitted:
		if err := st.await(c.legacy); err != nil {
			return err
		}
		st.ordered = c.legacy.submitted
	}
	return nil
}

// await makes a stream wait for all that another one has been given so far.
func (st *stream) await(other *stream) error {
	if other.idle() {
		return nil
	}
	if other.mark == nil {
		mark, err := other.context.device.context.NewEvent(gpu.EventOptions{})
		if err != nil {
			return err
		}
		other.mark, other.markedAt = mark, 0
	}
	if other.markedAt != other.submitted {
		if err := other.work.Submit(gpu.Record{Event: other.mark}); err != nil {
			return err
		}
		other.markedAt = other.submitted
	}
	return st.work.Submit(gpu.Await{Event: other.mark})
}

// idle reports whether everything given to the stream is done. It is cheap when that was known
// before.
func (st *stream) idle() bool {
	if st.idleAt == st.submitted {
		return true
	}
	if !st.work.Idle() {
		return false
	}
	st.idleAt = st.submitted
	return true
}

// done reports whether the stream is idle, and for the legacy stream, whether all that it orders
// itself with is.
func (st *stream) done() bool {
	if !st.idle() {
		return false
	}
	if st.line.Legacy {
		for _, other := range st.context.streams {
			if other.line.Blocking && !other.idle() {
				return false
			}
		}
	}
	return true
}

// quiet reports whether work given to the stream now would begin at once.
func (st *stream) quiet() bool {
	return st.done() && (!st.line.Blocking || st.context.legacy == nil || st.context.legacy.idle())
}

// busy lists the streams of a context that are not done.
func (c *context) busy() []*stream {
	var busy []*stream
	for _, st := range c.streams {
		if !st.idle() {
			busy = append(busy, st)
		}
	}
	return busy
}

// uncaptured is the rule for calls that a captured stream cannot take, and for any use of the
// legacy stream.
func (s *Session) uncaptured(st *stream, op string) error {
	if st.line.Legacy {
		return s.captures.Implicit(st.line.Context)
	}
	if st.line.Capturing() {
		st.line.Invalidate()
		return &gpu.Error{Op: op, Code: abi.StreamCaptureUnsupported, Detail: "the stream is being captured"}
	}
	return nil
}

func (s *Session) streamCreateWithPriority(
	call *Call,
	in *wire.StreamCreateWithPriority,
	out *wire.StreamCreateWithPriorityReply,
) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	if in.Flags > streamNonBlocking {
		return invalid("create stream", fmt.Sprintf("unknown flags %#x", in.Flags))
	}
	st, err := s.newStream(c, in.Flags, in.Priority)
	if err != nil {
		return err
	}
	st.object = s.objects.Add(&object.Object{
		ID: uint64(s.objects.NextHandle(abi.KindStream)), Kind: abi.KindStream,
		Maker: call.maker(), Owner: c.object, State: st,
	})
	out.PhStream = st.object.Handle()
	return nil
}

// streamDestroy lets go of a stream; the work in it goes on to its end.
func (s *Session) streamDestroy(_ *Call, in *wire.StreamDestroy) error {
	o, err := s.objects.Find(abi.KindStream, in.HStream)
	if err != nil {
		return err
	}
	st := o.State.(*stream)
	s.captures.Abandon(&st.line, s.discard)
	s.tellCapturing()
	if st.idle() {
		s.destroy(o)
		return nil
	}
	// Others may still have to wait for it, so it stays in the context's list until it is done.
	o.State = nil
	s.destroy(o)
	s.backlog.add(markUnits)
	go func() {
		defer s.backlog.done(markUnits)
		_ = st.work.Synchronize()
		s.mu.Lock()
		defer s.mu.Unlock()
		st.close()
	}()
	return nil
}

func (s *Session) streamQuery(call *Call, in *wire.StreamQuery) error {
	st, err := s.stream(call, in.HStream)
	if err != nil {
		return err
	}
	if err := s.uncaptured(st, "query stream"); err != nil {
		return err
	}
	if st.done() {
		return st.context.device.context.Fault()
	}
	if err := st.work.Query(); err != nil {
		return err
	}
	return abi.NotReady
}

func (s *Session) streamSynchronize(call *Call, in *wire.StreamSynchronize) error {
	st, err := s.stream(call, in.HStream)
	if err != nil {
		return err
	}
	if err := s.uncaptured(st, "synchronize stream"); err != nil {
		return err
	}
	return s.wait(call, st)
}

// wait answers the call when the stream is done, and what it has to wait for.
func (s *Session) wait(call *Call, st *stream) error {
	if st.done() {
		return st.context.device.context.Fault()
	}
	if st.line.Legacy { // it is done when the blocking ones are, too
		if err := st.order(); err != nil {
			return err
		}
	}
	return st.beside(call, st.work.Synchronize)
}

func (s *Session) streamWaitEvent(call *Call, in *wire.StreamWaitEvent) error {
	st, err := s.stream(call, in.HStream)
	if err != nil {
		return err
	}
	e, err := s.event(in.HEvent)
	if err != nil {
		return err
	}
	const external = 1
	if in.Flags&external != 0 && st.line.Capturing() {
		_, err := st.line.Add(graph.EventWait{Event: in.HEvent})
		return err
	}
	if st.line.Capturing() || e.captured.Captured() {
		err := st.line.Wait(e.captured)
		s.tellCapturing()
		return err
	}
	if err := s.uncaptured(st, "wait for event"); err != nil {
		return err
	}
	if e.counter != nil {
		return s.waitShared(st, e)
	}
	if e.recorded == 0 {
		return nil
	}
	return st.enqueue(gpu.Await{Event: e.work})
}

func (s *Session) streamGetPriority(call *Call, in *wire.StreamGetPriority, out *wire.StreamGetPriorityReply) error {
	st, err := s.stream(call, in.HStream)
	if err == nil {
		out.Priority = st.priority
	}
	return err
}

func (s *Session) streamGetFlags(call *Call, in *wire.StreamGetFlags, out *wire.StreamGetFlagsReply) error {
	st, err := s.stream(call, in.HStream)
	if err == nil {
		out.Flags = st.flags
	}
	return err
}

// streamGetId numbers created streams by their handle, the default ones by their context's.
func (s *Session) streamGetId(call *Call, in *wire.StreamGetId, out *wire.StreamGetIdReply) error {
	st, err := s.stream(call, in.HStream)
	if err != nil {
		return err
	}
	out.StreamId = uint64(in.HStream.Index())
	if st.object == nil {
		out.StreamId = 1<<32 | uint64(st.context.object.Handle().Index())
		if in.HStream == abi.StreamPerThread {
			out.StreamId |= uint64(call.Slot+1) << 40
		}
	}
	return nil
}

func (s *Session) streamGetCtx(call *Call, in *wire.StreamGetCtx, out *wire.StreamGetCtxReply) error {
	st, err := s.stream(call, in.HStream)
	if err == nil {
		out.Pctx = st.context.object.Handle()
	}
	return err
}

func (s *Session) streamGetDevice(call *Call, in *wire.StreamGetDevice, out *wire.StreamGetDeviceReply) error {
	st, err := s.stream(call, in.HStream)
	if err == nil {
		out.Device = int32(st.context.device.ordinal)
	}
	return err
}

// save: a quiet stream has no counts worth keeping.
func (st *stream) save(*saving) saved.State {
	return &saved.Stream{Flags: st.flags, Priority: st.priority}
}

func (s *Session) restoreStream(r *restoring, o *object.Object, in *saved.Stream) (*stream, error) {
	c, err := ownerOf[*context](o)
	if err != nil {
		return nil, err
	}
	st, err := s.newStream(c, in.Flags, in.Priority)
	if err != nil {
		return nil, err
	}
	st.object = o
	return st, nil
}
