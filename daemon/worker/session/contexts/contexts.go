package contexts

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// primary is what a device knows of its primary context while it does not exist.
type primary struct {
	retained uint32
	flags    uint32
	context  *core.Context
	// ending is closed when one that is being destroyed is gone; nil for none.
	ending chan struct{}
}

const flagMapHost = 8 // always on, as on every 64-bit device

func (s *Contexts) newContext(call *core.Call, d *core.Device, h abi.Handle, flags uint32) (*core.Context, error) {
	if err := s.memory.OpenDevice(d); err != nil {
		return nil, err
	}
	c := &core.Context{
		Device:    d,
		Flags:     flags | flagMapHost,
		Limits:    core.DefaultLimits,
		PerThread: map[uint32]*core.Stream{},
	}
	c.Object = s.Objects.Add(&object.Object{ID: uint64(h), Kind: abi.KindContext, Maker: call.Maker(), State: c})
	s.Contexts[h.Index()] = c
	return c, nil
}

// endContext destroys a context once its work is over.
func (s *Contexts) endContext(call *core.Call, c *core.Context) error {
	delete(s.Contexts, c.Object.Handle().Index())
	c.Ending = true
	s.Ending[c] = struct{}{}
	streams := slices.Clone(c.Streams)
	for _, st := range streams {
		st.References.Add(1)
	}
	for _, st := range c.Streams {
		s.Captures.Abandon(&st.Line, s.DiscardGraph)
	}
	s.ReportCapturing()
	return call.Detach(func() error {
		for _, st := range streams {
			_ = st.Work.Synchronize() // a fault ends here, with the context
			st.Drop()
		}
		c.Waiters.Wait()
		if done, err := s.finishBeside(c); done {
			return err
		}
		c.Device.WaitReleased()
		return s.reclaim.WhenIdle(func() error { return s.finishContext(c) })
	})
}

// finishBeside ends a context beside the work of others, unless that needs idle GPUs. Of two last
// contexts of a device that end at once, the second one needs them.
func (s *Contexts) finishBeside(c *core.Context) (done bool, err error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.reclaim.Defers() && s.needsIdle(c) {
		return false, nil
	}
	return true, s.finishContext(c)
}

// needsIdle reports whether the end of a context is also that of more, for which a driver may wait
// for all GPUs. It needs s.Mu.
func (s *Contexts) needsIdle(c *core.Context) bool {
	for _, other := range s.Contexts {
		if _, enabled := other.Peers[c]; enabled {
			return true
		}
	}
	return c.Device.Users == 1 && c.Device.Blocks == 0 || len(c.Peers) > 0
}

// finishContext ends a context whose work is over.
func (s *Contexts) finishContext(c *core.Context) error {
	delete(s.Ending, c)
	s.disablePeers(c)
	s.Destroy(c.Object)
	for _, st := range slices.Clone(c.Streams) {
		st.Close() // the default streams, which are no objects
	}
	s.memory.CloseDevice(c.Device)
	if c.Object.Handle() == abi.PrimaryContext(c.Device.Ordinal) {
		close(s.primaries[c.Device.Ordinal].ending)
		s.primaries[c.Device.Ordinal].ending = nil
	}
	return nil
}

func (s *Contexts) devicePrimaryCtxRetain(
	call *core.Call,
	in *wire.DevicePrimaryCtxRetain,
	out *wire.DevicePrimaryCtxRetainReply,
) error {
	d, err := s.Device(in.Dev)
	if err != nil {
		return err
	}
	if s.primaries[d.Ordinal].ending == nil {
		return s.retain(call, d, out)
	}
	return call.Detach(func() error { // its handle is given out again when it is free
		s.Mu.Lock()
		defer s.Mu.Unlock()
		for s.primaries[d.Ordinal].ending != nil {
			ending := s.primaries[d.Ordinal].ending
			s.Mu.Unlock()
			<-ending
			s.Mu.Lock()
		}
		return s.retain(call, d, out)
	})
}

// retain adds a reference to a primary context, and creates it for the first. It needs s.Mu.
func (s *Contexts) retain(call *core.Call, d *core.Device, out *wire.DevicePrimaryCtxRetainReply) error {
	if s.primaries[d.Ordinal].context == nil {
		c, err := s.newContext(call, d, abi.PrimaryContext(d.Ordinal), s.primaries[d.Ordinal].flags)
		if err != nil {
			return err
		}
		s.primaries[d.Ordinal].context = c
	}
	s.primaries[d.Ordinal].retained++
	out.Pctx = s.primaries[d.Ordinal].context.Object.Handle()
	return nil
}

func (s *Contexts) devicePrimaryCtxRelease(call *core.Call, in *wire.DevicePrimaryCtxRelease) error {
	d, err := s.Device(in.Dev)
	if err != nil {
		return err
	}
	if s.primaries[d.Ordinal].retained == 0 {
		return &gpu.Error{Op: "release primary context", Code: abi.InvalidContext, Detail: "it is not retained"}
	}
	s.primaries[d.Ordinal].retained--
	if s.primaries[d.Ordinal].retained > 0 {
		return nil
	}
	return s.endPrimary(call, d)
}

func (s *Contexts) devicePrimaryCtxReset(call *core.Call, in *wire.DevicePrimaryCtxReset) error {
	d, err := s.Device(in.Dev)
	if err != nil || s.primaries[d.Ordinal].context == nil {
		return err
	}
	s.primaries[d.Ordinal].retained = 0
	return s.endPrimary(call, d)
}

// endPrimary ends a primary context. Its handle is free again when ending is closed.
func (s *Contexts) endPrimary(call *core.Call, d *core.Device) error {
	c := s.primaries[d.Ordinal].context
	s.primaries[d.Ordinal].context, s.primaries[d.Ordinal].flags, s.primaries[d.Ordinal].ending = nil, 0, make(
		chan struct{},
	)
	return s.endContext(call, c)
}

func (s *Contexts) devicePrimaryCtxSetFlags(_ *core.Call, in *wire.DevicePrimaryCtxSetFlags) error {
	d, err := s.Device(in.Dev)
	if err != nil {
		return err
	}
	s.primaries[d.Ordinal].flags = in.Flags
	if s.primaries[d.Ordinal].context != nil {
		s.primaries[d.Ordinal].context.Flags = in.Flags | flagMapHost
	}
	return nil
}

func (s *Contexts) devicePrimaryCtxGetState(
	_ *core.Call,
	in *wire.DevicePrimaryCtxGetState,
	out *wire.DevicePrimaryCtxGetStateReply,
) error {
	d, err := s.Device(in.Dev)
	if err != nil {
		return err
	}
	out.Flags = s.primaries[d.Ordinal].flags
	if s.primaries[d.Ordinal].context != nil {
		out.Active = 1
	}
	return nil
}

func (s *Contexts) ctxCreate(call *core.Call, in *wire.CtxCreate, out *wire.CtxCreateReply) error {
	d, err := s.Device(in.Dev)
	if err != nil {
		return err
	}
	if in.Flags&^0xff != 0 {
		return core.Invalid("create context", fmt.Sprintf("unknown flags %#x", in.Flags))
	}
	c, err := s.newContext(call, d, s.Objects.NextHandle(abi.KindContext), in.Flags)
	if err == nil {
		out.Pctx = c.Object.Handle()
	}
	return err
}

func (s *Contexts) ctxDestroy(call *core.Call, in *wire.CtxDestroy) error {
	c, err := s.Context(call, in.Ctx)
	if err != nil {
		return err
	}
	if s.primaries[c.Device.Ordinal].context == c {
		return &gpu.Error{
			Op:     "destroy context",
			Code:   abi.InvalidContext,
			Detail: "a primary context is released, not destroyed",
		}
	}
	return s.endContext(call, c)
}

func (s *Contexts) ctxGetLimit(call *core.Call, in *wire.CtxGetLimit, out *wire.CtxGetLimitReply) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	if core.IsGraphicsLimit(in.Limit) {
		out.Pvalue = 0
		return nil
	}
	if in.Limit < 0 || in.Limit >= core.LimitCount {
		return core.Invalid("get limit", fmt.Sprintf("unknown limit %d", in.Limit))
	}
	out.Pvalue = c.Limits[in.Limit]
	return nil
}

// ctxSetLimit remembers the value, and tells the device where it has such limits.
func (s *Contexts) ctxSetLimit(call *core.Call, in *wire.CtxSetLimit) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	switch {
	case core.IsGraphicsLimit(in.Limit) && in.Value == 0:
		return nil
	case core.IsGraphicsLimit(in.Limit):
		return &gpu.Error{Op: "set limit", Code: abi.UnsupportedLimit}
	case in.Limit < 0 || in.Limit >= core.LimitCount:
		return core.Invalid("set limit", fmt.Sprintf("unknown limit %d", in.Limit))
	}
	limiter, ok := c.Device.GPU.(gpu.Limiter)
	if !ok || !core.IsKernelLimit(in.Limit) {
		c.SetLimit(in.Limit, in.Value)
		return nil
	}
	limit, value := in.Limit, in.Value
	return call.Detach(func() error {
		if err := limiter.SetLimit(limit, value); err != nil {
			return err
		}
		s.Mu.Lock()
		defer s.Mu.Unlock()
		c.SetLimit(limit, value)
		return nil
	})
}

func (s *Contexts) ctxSynchronize(call *core.Call, in *wire.CtxSynchronize) error {
	c, err := s.Context(call, in.Ctx)
	if err != nil {
		return err
	}
	if err := s.Captures.Synchronizing(c.Object.Handle()); err != nil {
		return err
	}
	busy := c.Busy()
	if len(busy) == 0 {
		return c.Device.GPU.Fault()
	}
	release, device := c.Hold(busy), c.Device.GPU
	return call.Detach(func() error {
		defer release()
		for _, st := range busy {
			if err := st.Work.Synchronize(); err != nil {
				return err
			}
		}
		return device.Fault()
	})
}

func (s *Contexts) restoreContext(r *core.Decoder, o *object.Object, in *saved.Context) (*core.Context, error) {
	h := o.Handle()
	d, err := s.Device(in.Device)
	if err != nil {
		return nil, err
	}
	primary := h == abi.PrimaryContext(d.Ordinal)
	if len(in.Limits) != core.LimitCount || !primary && h.Index() <= object.ReservedContexts || o.Parent != nil {
		return nil, core.Damaged("it is no context of GPU %d", d.Ordinal)
	}
	c := &core.Context{
		Object:    o,
		Device:    d,
		Flags:     in.Flags,
		Limits:    core.Limits(in.Limits),
		PerThread: map[uint32]*core.Stream{},
	}
	c.HeapBytes.Store(in.HeapBytes)
	if err := c.ApplyLimits(); err != nil {
		return nil, err
	}
	if in.Legacy {
		if c.Legacy, err = s.NewLegacy(c); err != nil {
			return nil, err
		}
	}
	for _, slot := range in.PerThread {
		if c.PerThread[slot], err = s.NewStream(c, 0, 0); err != nil {
			return nil, err
		}
	}
	if primary {
		s.primaries[d.Ordinal].context = c
	}
	d.Users++
	s.Contexts[h.Index()] = c
	if len(in.Peers) > 0 {
		r.Finish = append(r.Finish, func() error { return s.restorePeers(c, in.Peers) })
	}
	return c, nil
}

// Save writes what is beside the objects.
func (s *Contexts) Save(e *core.Encoder) {
	for i := range s.Devices {
		e.Out.Devices[i].Retained, e.Out.Devices[i].Flags = s.primaries[i].retained, s.primaries[i].flags
	}
}

// Restore makes the state of an object, nil for an object of another topic.
func (s *Contexts) Restore(r *core.Decoder, o *object.Object, in saved.State) (core.State, error) {
	if in, ok := in.(*saved.Context); ok {
		return s.restoreContext(r, o, in)
	}
	return nil, nil
}

// RestorePrimaries brings what is beside the objects, once these are there.
func (s *Contexts) RestorePrimaries(r *core.Decoder) error {
	for i := range s.Devices {
		p, in := &s.primaries[i], &r.In.Devices[i]
		p.retained, p.flags = in.Retained, in.Flags
		if (p.retained > 0) != (p.context != nil) {
			return core.Damaged("the primary context of GPU %d is retained %d times", i, p.retained)
		}
	}
	return nil
}

// Release has nothing to free: a context ends with endContext.
func (s *Contexts) Release(*object.Object) {}
