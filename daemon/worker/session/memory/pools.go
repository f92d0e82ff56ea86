package memory

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// pool is a memory pool. It keeps count; its memory is the device's heap, so nothing is held back
// between a free and the next allocation, whatever the release threshold says.
type pool struct {
	object   *object.Object
	device   *core.Device
	maxBytes uint64 // 0 for no limit
	// reuse holds the three reuse policies, attributes 1 to 3.
	reuse     [3]bool
	threshold uint64

	mu         sync.Mutex
	used, high uint64
}

// devicePools are the pools that a device always has: the standard one is never destroyed, the
// current one serves cuMemAllocAsync.
type devicePools struct{ standard, current *pool }

// Attributes of pools, CUmemPool_attribute numbers.
const (
	poolReuseFirst   = 1
	poolReuseLast    = 3
	poolThreshold    = 4
	poolReserved     = 5
	poolReservedHigh = 6
	poolUsed         = 7
	poolUsedHigh     = 8
)

// count adds to what the pool has handed out.
func (p *pool) count(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += uint64(bytes)
	p.high = max(p.high, p.used)
}

func (p *pool) usage() (used, high uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.high
}

func (s *Memory) pool(h abi.Handle) (*pool, error) {
	return core.Find[*pool](s.Core, abi.KindMemoryPool, h)
}

func (s *Memory) deviceGetDefaultMemPool(
	_ *core.Call,
	in *wire.DeviceGetDefaultMemPool,
	out *wire.DeviceGetDefaultMemPoolReply,
) error {
	d, err := s.Device(in.Dev)
	if err == nil {
		out.PoolOut = s.pools[d.Ordinal].standard.object.Handle()
	}
	return err
}

func (s *Memory) deviceGetMemPool(_ *core.Call, in *wire.DeviceGetMemPool, out *wire.DeviceGetMemPoolReply) error {
	d, err := s.Device(in.Dev)
	if err == nil {
		out.Pool = s.pools[d.Ordinal].current.object.Handle()
	}
	return err
}

func (s *Memory) deviceSetMemPool(_ *core.Call, in *wire.DeviceSetMemPool) error {
	d, err := s.Device(in.Dev)
	if err != nil {
		return err
	}
	p, err := s.pool(in.Pool)
	if err != nil {
		return err
	}
	if p.device != d {
		return core.Invalid("set memory pool", "it is on another GPU")
	}
	s.pools[d.Ordinal].current = p
	return nil
}

func (s *Memory) memPoolCreate(call *core.Call, in *wire.MemPoolCreate, out *wire.MemPoolCreateReply) error {
	d, err := s.Device(in.Device)
	if err != nil {
		return err
	}
	p := &pool{device: d, maxBytes: in.MaxBytes, reuse: [3]bool{true, true, true}}
	p.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindMemoryPool)), Kind: abi.KindMemoryPool,
		Maker: call.Maker(), State: p,
	})
	out.Pool = p.object.Handle()
	return nil
}

// memPoolDestroy ends a pool; what was allocated from it stays until it is freed.
func (s *Memory) memPoolDestroy(_ *core.Call, in *wire.MemPoolDestroy) error {
	p, err := s.pool(in.Pool)
	if err != nil {
		return err
	}
	pools := &s.pools[p.device.Ordinal]
	if p == pools.standard {
		return core.Invalid("destroy memory pool", "it is the GPU's default pool")
	}
	if pools.current == p {
		pools.current = pools.standard
	}
	s.Destroy(p.object)
	return nil
}

func (s *Memory) memPoolTrimTo(_ *core.Call, in *wire.MemPoolTrimTo) error {
	p, err := s.pool(in.Pool)
	if err == nil && p.device.Heap != nil {
		p.device.Heap.Trim()
		s.reclaim.Freed()
	}
	return err
}

func (s *Memory) memPoolSetAttribute(_ *core.Call, in *wire.MemPoolSetAttribute) error {
	p, err := s.pool(in.Pool)
	if err != nil {
		return err
	}
	switch a := in.Attribute; {
	case a >= poolReuseFirst && a <= poolReuseLast:
		p.reuse[a-poolReuseFirst] = in.Value != 0
	case a == poolThreshold:
		p.threshold = in.Value
	case (a == poolReservedHigh || a == poolUsedHigh) && in.Value == 0:
		p.mu.Lock()
		p.high = p.used
		p.mu.Unlock()
	default:
		return core.Invalid("set memory pool attribute", fmt.Sprintf("attribute %d cannot be set to %d", a, in.Value))
	}
	return nil
}

func (s *Memory) memPoolGetAttribute(
	_ *core.Call,
	in *wire.MemPoolGetAttribute,
	out *wire.MemPoolGetAttributeReply,
) error {
	p, err := s.pool(in.Pool)
	if err != nil {
		return err
	}
	used, high := p.usage()
	switch a := in.Attribute; {
	case a >= poolReuseFirst && a <= poolReuseLast:
		if p.reuse[a-poolReuseFirst] {
			out.Value = 1
		}
	case a == poolThreshold:
		out.Value = p.threshold
	case a == poolReserved || a == poolUsed:
		out.Value = used
	case a == poolReservedHigh || a == poolUsedHigh:
		out.Value = high
	default:
		return core.Invalid("get memory pool attribute", fmt.Sprintf("there is no attribute %d", a))
	}
	return nil
}

func (s *Memory) memAllocFromPoolAsync(
	call *core.Call,
	in *wire.MemAllocFromPoolAsync,
	out *wire.MemAllocFromPoolAsyncReply,
) error {
	st, err := s.poolStream(call, in.HStream, "allocate from a pool")
	if err != nil {
		return err
	}
	p := s.pools[st.Context.Device.Ordinal].current
	if in.Pool != 0 {
		if p, err = s.pool(in.Pool); err != nil {
			return err
		}
	}
	if used, _ := p.usage(); p.maxBytes > 0 && (in.Bytesize > p.maxBytes || used > p.maxBytes-in.Bytesize) {
		return &gpu.Error{Op: "allocate from a pool", Code: abi.OutOfMemory, Detail: "the pool's limit is reached"}
	}
	return s.allocate(call, p.device, in.Bytesize, request{
		parent: st.Context.Object, maker: call.Maker(), pool: p,
		placed: func(r gpu.Range) { out.Dptr = r.Address },
	})
}

// poolStream returns the stream of a stream-ordered allocation or free.
func (s *Memory) poolStream(call *core.Call, h abi.Handle, op string) (*core.Stream, error) {
	st, err := s.Stream(call, h)
	if err != nil {
		return nil, err
	}
	if st.Line.Capturing() {
		st.Line.Invalidate()
		return nil, &gpu.Error{Op: op, Code: abi.NotSupported, Detail: "memory nodes in graphs are not built"}
	}
	return st, s.RequireUncaptured(st, op)
}

func (s *Memory) memFreeAsync(call *core.Call, in *wire.MemFreeAsync) error {
	if in.Dptr == 0 {
		return nil
	}
	st, err := s.poolStream(call, in.HStream, "free in stream order")
	if err != nil {
		return err
	}
	o := s.Objects.Get(in.Dptr)
	if o == nil || o.Kind != object.KindMemory {
		return core.Invalid("free in stream order", "the address is not that of device memory")
	}
	a := o.State.(*allocation)
	s.Objects.Destroy(o, func(*object.Object) {})
	if st.Ready() {
		a.free(s)
		return nil
	}
	s.reclaim.CountFrees(1)
	err = st.Enqueue(gpu.Completion{Func: func() {
		a.free(s)
		s.reclaim.CountFrees(-1)
	}})
	if err != nil {
		s.reclaim.CountFrees(-1) // it is never freed
	}
	return err
}

func (p *pool) Save(*core.Encoder) saved.State {
	used, high := p.usage()
	return &saved.Pool{
		Device:    int32(p.device.Ordinal),
		MaxBytes:  p.maxBytes,
		Reuse:     p.reuse,
		Threshold: p.threshold,
		Used:      used,
		High:      high,
	}
}

func (s *Memory) restorePool(o *object.Object, in *saved.Pool) (*pool, error) {
	d, err := s.Device(in.Device)
	if err != nil {
		return nil, err
	}
	return &pool{
		object: o, device: d, maxBytes: in.MaxBytes, reuse: in.Reuse, threshold: in.Threshold,
		used: in.Used, high: in.High,
	}, nil
}
