package core

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Context is a driver context: the parent of streams, modules and memory on a device.
type Context struct {
	Object *object.Object
	Device *Device
	Flags  uint32
	Limits Limits
	// HeapBytes is Limits[LimitHeap] once it was set, for loads, which hold no lock.
	HeapBytes atomic.Uint64
	Legacy    *Stream
	PerThread map[uint32]*Stream
	Streams   []*Stream // in the order of creation, the two kinds above included
	// Peers are the contexts of other devices whose memory kernels may touch; nil for none.
	Peers map[*Context]struct{}
	// blocking counts what was submitted to blocking streams, for the order with the legacy stream.
	blocking uint64
	// Ending is set when the context is being destroyed: new calls must not use it. Waiters counts the
	// calls that still do.
	Ending  bool
	Waiters sync.WaitGroup
}

// Limits that can be set, CUlimit numbers; bytes or counts.
const (
	LimitStack     = 0
	LimitPrintf    = 1
	LimitHeap      = 2
	limitSyncDepth = 3
	limitLaunches  = 4
	limitFetch     = 5
	limitPersist   = 6
	LimitCount     = 7

	// Limits of contexts that share the GPU with a graphics API, which do not exist here: always 0.
	limitSharedBytes    = 7
	limitCIGEnabled     = 8
	limitSharedFallback = 9
)

// IsGraphicsLimit reports whether a limit belongs to contexts that share the GPU with a graphics
// API.
func IsGraphicsLimit(limit int32) bool {
	return limit >= limitSharedBytes && limit <= limitSharedFallback
}

// Limits are the values of all limits, by their number.
type Limits [LimitCount]uint64

// DefaultLimits are those of a real device.
var DefaultLimits = Limits{
	LimitStack:     1024,
	LimitPrintf:    1 << 20,
	LimitHeap:      8 << 20,
	limitSyncDepth: 2,
	limitLaunches:  2048,
	limitFetch:     64,
}

// Current returns the calling thread's context.
func (s *Core) Current(call *Call) (*Context, error) {
	if c := s.Contexts[call.Context]; c != nil {
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

// Context returns a context by its handle, the calling thread's for 0.
func (s *Core) Context(call *Call, h abi.Handle) (*Context, error) {
	if h == 0 {
		return s.Current(call)
	}
	if c := s.Contexts[h.Index()]; c != nil && h.Kind() == abi.KindContext {
		return c, nil
	}
	return nil, &gpu.Error{Op: "find context", Code: abi.InvalidContext, Detail: h.String() + " does not exist"}
}

// IsKernelLimit reports whether a limit is one that gpu.Limiter has.
func IsKernelLimit(limit int32) bool {
	return limit == LimitStack || limit == limitSyncDepth || limit == limitLaunches
}

// ApplyLimits sets what the program had set: the device's contexts share their limits, so the last
// one that differs from the default counts.
func (c *Context) ApplyLimits() error {
	limiter, ok := c.Device.GPU.(gpu.Limiter)
	for limit, value := range c.Limits {
		if ok && IsKernelLimit(int32(limit)) && value != DefaultLimits[limit] {
			if err := limiter.SetLimit(int32(limit), value); err != nil {
				return err
			}
		}
	}
	return nil
}

// SetLimit remembers a limit. That of the heap holds for code that is loaded from now on.
func (c *Context) SetLimit(limit int32, value uint64) {
	c.Limits[limit] = value
	if limit == LimitHeap {
		c.HeapBytes.Store(value)
	}
}

// Save writes the context.
func (c *Context) Save(*Encoder) saved.State {
	return &saved.Context{
		Device: int32(c.Device.Ordinal), Flags: c.Flags, Limits: c.Limits[:], HeapBytes: c.HeapBytes.Load(),
		Legacy: c.Legacy != nil, PerThread: slices.Sorted(maps.Keys(c.PerThread)), Peers: c.savePeers(),
	}
}

// AnyContext returns the oldest context, nil for none.
func (s *Core) AnyContext() *Context {
	var first *Context
	for _, c := range s.Contexts {
		if first == nil || c.Object.Sequence < first.Object.Sequence {
			first = c
		}
	}
	return first
}

// savePeers lists the contexts whose memory this one's kernels may touch.
func (c *Context) savePeers() (out []abi.Handle) {
	for peer := range c.Peers {
		out = append(out, peer.Object.Handle())
	}
	slices.Sort(out)
	return out
}

// Hold keeps the context and some of its streams open for a call that waits beside the ring, until
// release is called.
func (c *Context) Hold(streams []*Stream) (release func()) {
	for _, st := range streams {
		st.References.Add(1)
	}
	c.Waiters.Add(1)
	return func() {
		for _, st := range streams {
			st.Drop()
		}
		c.Waiters.Done()
	}
}

// Busy lists the streams of a context that are not done.
func (c *Context) Busy() []*Stream {
	var busy []*Stream
	for _, st := range c.Streams {
		if !st.Idle() {
			busy = append(busy, st)
		}
	}
	return busy
}
