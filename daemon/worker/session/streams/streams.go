package streams

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (s *Streams) streamCreateWithPriority(
	call *core.Call,
	in *wire.StreamCreateWithPriority,
	out *wire.StreamCreateWithPriorityReply,
) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	if in.Flags > core.NonBlocking {
		return core.Invalid("create stream", fmt.Sprintf("unknown flags %#x", in.Flags))
	}
	st, err := s.NewStream(c, in.Flags, in.Priority)
	if err != nil {
		return err
	}
	st.Object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindStream)), Kind: abi.KindStream,
		Maker: call.Maker(), Parent: c.Object, State: st,
	})
	out.PhStream = st.Object.Handle()
	return nil
}

// streamDestroy lets go of a stream; the work in it goes on to its end.
func (s *Streams) streamDestroy(_ *core.Call, in *wire.StreamDestroy) error {
	o, err := s.Objects.Find(abi.KindStream, in.HStream)
	if err != nil {
		return err
	}
	st := o.State.(*core.Stream)
	s.Captures.Abandon(&st.Line, s.DiscardGraph)
	s.ReportCapturing()
	if st.Idle() {
		s.Destroy(o)
		return nil
	}
	// Others may still have to wait for it, so it stays in the context's list until it is done.
	o.State = nil
	s.Destroy(o)
	s.Backlog.Add(core.MarkUnits)
	go func() {
		defer s.Backlog.Done(core.MarkUnits)
		_ = st.Work.Synchronize()
		s.Mu.Lock()
		defer s.Mu.Unlock()
		st.Close()
	}()
	return nil
}

func (s *Streams) streamQuery(call *core.Call, in *wire.StreamQuery) error {
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	if err := s.RequireUncaptured(st, "query stream"); err != nil {
		return err
	}
	if st.Done() {
		return st.Context.Device.GPU.Fault()
	}
	if err := st.Work.Query(); err != nil {
		return err
	}
	return abi.NotReady
}

func (s *Streams) streamSynchronize(call *core.Call, in *wire.StreamSynchronize) error {
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	if err := s.RequireUncaptured(st, "synchronize stream"); err != nil {
		return err
	}
	return s.wait(call, st)
}

// wait answers the call when the stream is done, and what it has to wait for.
func (s *Streams) wait(call *core.Call, st *core.Stream) error {
	if st.Done() {
		return st.Context.Device.GPU.Fault()
	}
	if st.Line.Legacy { // it is done when the blocking ones are, too
		if err := st.Order(); err != nil {
			return err
		}
	}
	return st.Beside(call, st.Work.Synchronize)
}

func (s *Streams) streamWaitEvent(call *core.Call, in *wire.StreamWaitEvent) error {
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	e, err := s.event(in.HEvent)
	if err != nil {
		return err
	}
	const external = 1
	if in.Flags&external != 0 && st.Line.Capturing() {
		_, err := st.Line.Add(graph.EventWait{Event: in.HEvent})
		return err
	}
	if st.Line.Capturing() || e.captured.Captured() {
		err := st.Line.Wait(e.captured)
		s.ReportCapturing()
		return err
	}
	if err := s.RequireUncaptured(st, "wait for event"); err != nil {
		return err
	}
	if e.counter != nil {
		return s.waitShared(st, e)
	}
	if e.recorded == 0 {
		return nil
	}
	return st.Enqueue(gpu.Await{Event: e.work})
}

func (s *Streams) streamGetPriority(
	call *core.Call,
	in *wire.StreamGetPriority,
	out *wire.StreamGetPriorityReply,
) error {
	st, err := s.Stream(call, in.HStream)
	if err == nil {
		out.Priority = st.Priority
	}
	return err
}

func (s *Streams) streamGetFlags(call *core.Call, in *wire.StreamGetFlags, out *wire.StreamGetFlagsReply) error {
	st, err := s.Stream(call, in.HStream)
	if err == nil {
		out.Flags = st.Flags
	}
	return err
}

// streamGetId numbers created streams by their handle, the default ones by their context's.
func (s *Streams) streamGetId(call *core.Call, in *wire.StreamGetId, out *wire.StreamGetIdReply) error {
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	out.StreamId = uint64(in.HStream.Index())
	if st.Object == nil {
		out.StreamId = 1<<32 | uint64(st.Context.Object.Handle().Index())
		if in.HStream == abi.StreamPerThread {
			out.StreamId |= uint64(call.Slot+1) << 40
		}
	}
	return nil
}

func (s *Streams) streamGetCtx(call *core.Call, in *wire.StreamGetCtx, out *wire.StreamGetCtxReply) error {
	st, err := s.Stream(call, in.HStream)
	if err == nil {
		out.Pctx = st.Context.Object.Handle()
	}
	return err
}

func (s *Streams) streamGetDevice(call *core.Call, in *wire.StreamGetDevice, out *wire.StreamGetDeviceReply) error {
	st, err := s.Stream(call, in.HStream)
	if err == nil {
		out.Device = int32(st.Context.Device.Ordinal)
	}
	return err
}

func (s *Streams) restoreStream(o *object.Object, in *saved.Stream) (*core.Stream, error) {
	c, err := core.ParentOf[*core.Context](o)
	if err != nil {
		return nil, err
	}
	st, err := s.NewStream(c, in.Flags, in.Priority)
	if err != nil {
		return nil, err
	}
	st.Object = o
	return st, nil
}
