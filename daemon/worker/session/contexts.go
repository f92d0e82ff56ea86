package session

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// primary is what a device knows of its primary context while it does not exist.
type primary struct {
	retained uint32
	flags    uint32
	context  *context
	// ending is closed when one that is being destroyed is gone; nil for none.
	ending chan struct{}
}

// context is a driver context: an owner of streams, modules and memory on a device.
type context struct {
	object *object.Object
	device *device
	flags  uint32
	limits limits
	// heapBytes is limits[limitHeap] once it was set, for loads, which hold no lock.
	heapBytes atomic.Uint64
	legacy    *stream
	perThread map[uint32]*stream
	streams   []*stream // in the order of creation, the two kinds above included
	// peers are the contexts of other devices whose memory kernels may touch; nil for none.
	peers map[*context]struct{}
	// blocking counts what was submitted to blocking streams, for the order with the legacy stream.
	blocking uint64
	// ending is set when the context is being destroyed: nothing new may use it. waiters are calls
	// that still do.
	ending  bool
	waiters sync.WaitGroup
}

// Limits that can be set, CUlimit numbers; bytes or counts.
const (
	limitStack     = 0
	limitPrintf    = 1
	limitHeap      = 2
	limitSyncDepth = 3
	limitLaunches  = 4
	limitFetch     = 5
	limitPersist   = 6
	limitCount     = 7
)

type limits [limitCount]uint64

// defaultLimits are those of a real device.
var defaultLimits = limits{
	limitStack:     1024,
	limitPrintf:    1 << 20,
	limitHeap:      8 << 20,
	limitSyncDepth: 2,
	limitLaunches:  2048,
	limitFetch:     64,
}

const flagMapHost = 8 // always on, as on every 64-bit device

// current returns the calling thread's context.
func (s *Session) current(call *Call) (*context, error) {
	if c := s.contexts[call.Context]; c != nil {
		return c, nil
	}
	if call.Context == 0 {
		return nil, &gpu.Error{
			Op:     "find context",
			Code:   abi.InvalidContext,
			Detail: "the thread has no current context",
		}
	}
	return nil, &gpu.Error{Op: "find context", Code: abi.ContextIsDestroyed}
}

// context returns a context by its handle, the calling thread's for 0.
func (s *Session) context(call *Call, h abi.Handle) (*context, error) {
	if h == 0 {
		return s.current(call)
	}
	if c := s.contexts[h.Index()]; c != nil && h.Kind() == abi.KindContext {
		return c, nil
	}
	return nil, &gpu.Error{Op: "find context", Code: abi.InvalidContext, Detail: h.String() + " does not exist"}
}

func (s *Session) newContext(call *Call, d *device, h abi.Handle, flags uint32) (*context, error) {
	if err := s.open(d); err != nil {
		return nil, err
	}
	c := &context{device: d, flags: flags | flagMapHost, limits: defaultLimits, perThread: map[uint32]*stream{}}
	c.object = s.objects.Add(&object.Object{ID: uint64(h), Kind: abi.KindContext, Maker: call.maker(), State: c})
	s.contexts[h.Index()] = c
	return c, nil
}

// endContext destroys a context once its work is over.
func (s *Session) endContext(call *Call, c *context) error {
	delete(s.contexts, c.object.Handle().Index())
	c.ending = true
	s.ending[c] = struct{}{}
	streams := slices.Clone(c.streams)
	for _, st := range streams {
		st.users.Add(1)
	}
	for _, st := range c.streams {
		s.captures.Abandon(&st.line, s.discard)
	}
	s.tellCapturing()
	return call.Beside(func() error {
		for _, st := range streams {
			_ = st.work.Synchronize() // a fault ends here, with the context
			st.drop()
		}
		c.waiters.Wait()
		if s.defers() && s.closes(c) {
			c.device.settle()
			return s.atRest(func() error { return s.conclude(c) })
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.conclude(c)
	})
}

// closes reports whether the end of a context is also that of more, for which a driver may wait for
// all GPUs.
func (s *Session) closes(c *context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.contexts {
		if _, enabled := other.peers[c]; enabled {
			return true
		}
	}
	return c.device.users == 1 && c.device.blocks == 0 || len(c.peers) > 0
}

// settle waits until no checkpoint needs what lies on the device, which may be closed. It needs no
// lock.
func (d *device) settle() {
	if opened := d.opened.Load(); opened != nil {
		if m, is := (*opened).Memory().(gpu.Shadower); is {
			m.Settle()
		}
	}
}

// conclude ends a context whose work is over.
func (s *Session) conclude(c *context) error {
	delete(s.ending, c)
	s.unpeer(c)
	s.destroy(c.object)
	for _, st := range slices.Clone(c.streams) {
		st.close() // the default streams, which are nobody's
	}
	s.leave(c.device)
	if c.object.Handle() == abi.PrimaryContext(c.device.ordinal) {
		close(s.primaries[c.device.ordinal].ending)
		s.primaries[c.device.ordinal].ending = nil
	}
	return nil
}

// destroy destroys an object and what it owns, and frees what these held.
func (s *Session) destroy(o *object.Object) { s.objects.Destroy(o, s.release) }

// release frees what an object held when it is destroyed, by itself or with its owner.
func (s *Session) release(o *object.Object) {
	s.releaseStreams(o)
	s.releaseMemory(o)
	s.releaseContexts(o)
	s.releaseCode(o)
	s.releaseGraphs(o)
}

func (s *Session) devicePrimaryCtxRetain(
	call *Call,
	in *wire.DevicePrimaryCtxRetain,
	out *wire.DevicePrimaryCtxRetainReply,
) error {
	d, err := s.device(in.Dev)
	if err != nil {
		return err
	}
	if s.primaries[d.ordinal].ending == nil {
		return s.retain(call, d, out)
	}
	return call.Beside(func() error { // its handle is given out again when it is free
		s.mu.Lock()
		defer s.mu.Unlock()
		for s.primaries[d.ordinal].ending != nil {
			ending := s.primaries[d.ordinal].ending
			s.mu.Unlock()
			<-ending
			s.mu.Lock()
		}
		return s.retain(call, d, out)
	})
}

func (s *Session) retain(call *Call, d *device, out *wire.DevicePrimaryCtxRetainReply) error {
	if s.primaries[d.ordinal].context == nil {
		c, err := s.newContext(call, d, abi.PrimaryContext(d.ordinal), s.primaries[d.ordinal].flags)
		if err != nil {
			return err
		}
		s.primaries[d.ordinal].context = c
	}
	s.primaries[d.ordinal].retained++
	out.Pctx = s.primaries[d.ordinal].context.object.Handle()
	return nil
}

func (s *Session) devicePrimaryCtxRelease(call *Call, in *wire.DevicePrimaryCtxRelease) error {
	d, err := s.device(in.Dev)
	if err != nil {
		return err
	}
	if s.primaries[d.ordinal].retained == 0 {
		return &gpu.Error{Op: "release primary context", Code: abi.InvalidContext, Detail: "it is not retained"}
	}
	s.primaries[d.ordinal].retained--
	if s.primaries[d.ordinal].retained > 0 {
		return nil
	}
	return s.endPrimary(call, d)
}

func (s *Session) devicePrimaryCtxReset(call *Call, in *wire.DevicePrimaryCtxReset) error {
	d, err := s.device(in.Dev)
	if err != nil || s.primaries[d.ordinal].context == nil {
		return err
	}
	s.primaries[d.ordinal].retained = 0
	return s.endPrimary(call, d)
}

func (s *Session) endPrimary(call *Call, d *device) error {
	c := s.primaries[d.ordinal].context
	s.primaries[d.ordinal].context, s.primaries[d.ordinal].flags, s.primaries[d.ordinal].ending = nil, 0, make(chan struct{})
	return s.endContext(call, c)
}

func (s *Session) devicePrimaryCtxSetFlags(_ *Call, in *wire.DevicePrimaryCtxSetFlags) error {
	d, err := s.device(in.Dev)
	if err != nil {
		return err
	}
	s.primaries[d.ordinal].flags = in.Flags
	if s.primaries[d.ordinal].context != nil {
		s.primaries[d.ordinal].context.flags = in.Flags | flagMapHost
	}
	return nil
}

func (s *Session) devicePrimaryCtxGetState(
	_ *Call,
	in *wire.DevicePrimaryCtxGetState,
	out *wire.DevicePrimaryCtxGetStateReply,
) error {
	d, err := s.device(in.Dev)
	if err != nil {
		return err
	}
	out.Flags = s.primaries[d.ordinal].flags
	if s.primaries[d.ordinal].context != nil {
		out.Active = 1
	}
	return nil
}

func (s *Session) ctxCreate(call *Call, in *wire.CtxCreate, out *wire.CtxCreateReply) error {
	d, err := s.device(in.Dev)
	if err != nil {
		return err
	}
	if in.Flags&^0xff != 0 {
		return invalid("create context", fmt.Sprintf("unknown flags %#x", in.Flags))
	}
	c, err := s.newContext(call, d, s.objects.NextHandle(abi.KindContext), in.Flags)
	if err == nil {
		out.Pctx = c.object.Handle()
	}
	return err
}

func (s *Session) ctxDestroy(call *Call, in *wire.CtxDestroy) error {
	c, err := s.context(call, in.Ctx)
	if err != nil {
		return err
	}
	if s.primaries[c.device.ordinal].context == c {
		return &gpu.Error{
			Op:     "destroy context",
			Code:   abi.InvalidContext,
			Detail: "a primary context is released, not destroyed",
		}
	}
	return s.endContext(call, c)
}

func (s *Session) ctxGetLimit(call *Call, in *wire.CtxGetLimit, out *wire.CtxGetLimitReply) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	if in.Limit < 0 || in.Limit >= limitCount {
		return &gpu.Error{Op: "get limit", Code: abi.UnsupportedLimit}
	}
	out.Pvalue = c.limits[in.Limit]
	return nil
}

// ctxSetLimit remembers the value, and tells the device where it has such limits.
func (s *Session) ctxSetLimit(call *Call, in *wire.CtxSetLimit) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	if in.Limit < 0 || in.Limit >= limitCount {
		return &gpu.Error{Op: "set limit", Code: abi.UnsupportedLimit}
	}
	limiter, limited := c.device.context.(gpu.Limiter)
	if !limited || !ofKernels(in.Limit) {
		c.setLimit(in.Limit, in.Value)
		return nil
	}
	limit, value := in.Limit, in.Value
	return call.Beside(func() error {
		if err := limiter.SetLimit(limit, value); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c.setLimit(limit, value)
		return nil
	})
}

// ofKernels reports whether a limit is one that gpu.Limiter has.
func ofKernels(limit int32) bool {
	return limit == limitStack || limit == limitSyncDepth || limit == limitLaunches
}

// limit sets again what the program had set: the device's contexts share their limits, so the last
// one that differs from the default counts.
func (c *context) limit() error {
	limiter, limited := c.device.context.(gpu.Limiter)
	for limit, value := range c.limits {
		if limited && ofKernels(int32(limit)) && value != defaultLimits[limit] {
			if err := limiter.SetLimit(int32(limit), value); err != nil {
				return err
			}
		}
	}
	return nil
}

// setLimit remembers a limit. That of the heap holds for code that is loaded from now on.
func (c *context) setLimit(limit int32, value uint64) {
	c.limits[limit] = value
	if limit == limitHeap {
		c.heapBytes.Store(value)
	}
}

func (s *Session) ctxSynchronize(call *Call, in *wire.CtxSynchronize) error {
	c, err := s.context(call, in.Ctx)
	if err != nil {
		return err
	}
	if err := s.captures.Synchronizing(c.object.Handle()); err != nil {
		return err
	}
	busy := c.busy()
	if len(busy) == 0 {
		return c.device.context.Fault()
	}
	letGo, device := c.hold(busy), c.device.context
	return call.Beside(func() error {
		defer letGo()
		for _, st := range busy {
			if err := st.work.Synchronize(); err != nil {
				return err
			}
		}
		return device.Fault()
	})
}

func (c *context) save(*saving) saved.State {
	return &saved.Context{
		Device: int32(c.device.ordinal), Flags: c.flags, Limits: c.limits[:], HeapBytes: c.heapBytes.Load(),
		Legacy: c.legacy != nil, PerThread: slices.Sorted(maps.Keys(c.perThread)), Peers: c.savePeers(),
	}
}

func (s *Session) restoreContext(r *restoring, o *object.Object, in *saved.Context) (*context, error) {
	h := o.Handle()
	d, err := s.device(in.Device)
	if err != nil {
		return nil, err
	}
	primary := h == abi.PrimaryContext(d.ordinal)
	if len(in.Limits) != limitCount || !primary && h.Index() <= object.ReservedContexts || o.Owner != nil {
		return nil, damaged("it is no context of GPU %d", d.ordinal)
	}
	c := &context{object: o, device: d, flags: in.Flags, limits: limits(in.Limits), perThread: map[uint32]*stream{}}
	c.heapBytes.Store(in.HeapBytes)
	if err := c.limit(); err != nil {
		return nil, err
	}
	if in.Legacy {
		if c.legacy, err = s.newLegacy(c); err != nil {
			return nil, err
		}
	}
	for _, slot := range in.PerThread {
		if c.perThread[slot], err = s.newStream(c, 0, 0); err != nil {
			return nil, err
		}
	}
	if primary {
		s.primaries[d.ordinal].context = c
	}
	d.users++
	s.contexts[h.Index()] = c
	if len(in.Peers) > 0 {
		r.settle = append(r.settle, func() error { return s.restorePeers(r, c, in.Peers) })
	}
	return c, nil
}

// saveContexts writes what is beside the objects.
func (s *Session) saveContexts(k *saving) {
	for i := range s.devices {
		k.out.Devices[i].Retained, k.out.Devices[i].Flags = s.primaries[i].retained, s.primaries[i].flags
	}
}

// restoreContexts makes the state of an object, nil for an object of another topic.
func (s *Session) restoreContexts(r *restoring, o *object.Object, in saved.State) (any, error) {
	if in, ok := in.(*saved.Context); ok {
		return s.restoreContext(r, o, in)
	}
	return nil, nil
}

// restorePrimaries brings what is beside the objects, once these are there.
func (s *Session) restorePrimaries(r *restoring) error {
	for i := range s.devices {
		p, in := &s.primaries[i], &r.in.Devices[i]
		p.retained, p.flags = in.Retained, in.Flags
		if (p.retained > 0) != (p.context != nil) {
			return damaged("the primary context of GPU %d is retained %d times", i, p.retained)
		}
	}
	return nil
}

// releaseContexts has nothing to free: a context ends with endContext.
func (s *Session) releaseContexts(*object.Object) {}
