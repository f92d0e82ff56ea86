package memory

import (
	"math/bits"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// allocation is memory that the program asked for.
type allocation struct {
	object *object.Object
	bounds gpu.Range
	// heap is nil for memory in the arena.
	heap *heap.Heap
	// pool is nil for what is in no pool.
	pool *pool
	// managed memory is freed as device memory is, though it lies in the arena.
	managed bool
	// export is the key under which other processes can have it; zero for none.
	export ipc.ID
}

// Size is what the program asked for.
func (a *allocation) Size() uint64 { return a.bounds.Bytes }

// free gives the memory back at once. It needs no lock.
func (a *allocation) free(s *Memory) {
	if a.export != (ipc.ID{}) {
		s.Exports.Withdraw(a.export)
	}
	var err error
	if a.heap == nil {
		s.FreePages(a.bounds)
	} else {
		err = a.heap.Free(a.bounds.Address)
		if a.pool != nil {
			a.pool.count(-int64(a.bounds.Bytes))
		}
	}
	if err != nil {
		s.Log.Warn("free memory", "address", a.bounds.Address, "error", err)
	}
	s.reclaim.Freed()
}

// unsafe is the rule for calls that a capture in global mode forbids everywhere.
func (s *Memory) unsafe(call *core.Call) error { return s.Captures.Unsafe(call.Slot, call.Mode()) }

// request is an allocation of device memory on its way.
type request struct {
	parent *object.Object
	maker  object.Maker
	pool   *pool
	// placed is told where the memory is.
	placed func(r gpu.Range)
}

// allocate finds device memory.
func (s *Memory) allocate(call *core.Call, d *core.Device, bytes uint64, request request) error {
	return s.reclaim.Retry(call, func() error {
		if d.Heap == nil {
			return &gpu.Error{Op: "allocate device memory", Code: abi.ContextIsDestroyed}
		}
		r, err := d.Heap.Allocate(bytes)
		if err != nil {
			return err
		}
		a := &allocation{bounds: r, heap: d.Heap, pool: request.pool}
		if a.pool != nil {
			a.pool.count(int64(bytes))
		}
		a.object = s.Objects.Add(
			&object.Object{
				ID:     r.Address,
				Kind:   object.KindMemory,
				Maker:  request.maker,
				Parent: request.parent,
				State:  a,
			},
		)
		request.placed(r)
		return nil
	})
}

func (s *Memory) memGetInfo(call *core.Call, out *wire.MemGetInfoReply) error {
	c, err := s.Current(call)
	if err == nil {
		out.Free, out.Total = c.Device.GPU.Memory().Usage()
	}
	return err
}

func (s *Memory) memAlloc(call *core.Call, in *wire.MemAlloc, out *wire.MemAllocReply) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	return s.allocate(call, c.Device, in.Bytesize, request{
		parent: c.Object, maker: call.Maker(),
		placed: func(r gpu.Range) { out.Dptr = r.Address },
	})
}

func (s *Memory) memAllocPitch(call *core.Call, in *wire.MemAllocPitch, out *wire.MemAllocPitchReply) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	if e := in.ElementSizeBytes; e != 4 && e != 8 && e != 16 || in.WidthInBytes == 0 || in.WidthInBytes > 1<<40 {
		return core.Invalid("allocate pitched memory", "element size or width")
	}
	pitch := (in.WidthInBytes + heap.Align - 1) &^ (heap.Align - 1)
	over, bytes := bits.Mul64(pitch, in.Height)
	if over != 0 {
		return abi.OutOfMemory
	}
	return s.allocate(call, c.Device, bytes, request{
		parent: c.Object, maker: call.Maker(),
		placed: func(r gpu.Range) { out.Dptr, out.PPitch = r.Address, pitch },
	})
}

// memFree frees after everything that was submitted before it.
func (s *Memory) memFree(call *core.Call, in *wire.MemFree) error {
	if in.Dptr == 0 {
		return nil
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	o := s.Objects.Get(in.Dptr)
	if o == nil {
		return core.Invalid("free device memory", "the address is not that of an allocation")
	}
	a, ok := o.State.(*allocation)
	if !ok || a.heap == nil && !a.managed {
		return core.Invalid("free device memory", "the address is that of pinned memory")
	}
	s.freeLater(a, s.holder(in.Dptr))
	return nil
}

// freeLater ends an allocation. Its memory is freed when the work submitted so far is done.
func (s *Memory) freeLater(a *allocation, d *core.Device) {
	s.Objects.Destroy(a.object, func(*object.Object) {})
	s.reclaim.AfterAll(d, func() { a.free(s) })
}

func (s *Memory) memAllocManaged(call *core.Call, in *wire.MemAllocManaged, out *wire.MemAllocManagedReply) error {
	const attachGlobal, attachHost = 1, 2
	if in.Flags != attachGlobal && in.Flags != attachHost {
		return core.Invalid("allocate managed memory", "flags")
	}
	return s.allocatePinned(call, in.Bytesize, true, func(r gpu.Range) { out.Dptr = r.Address })
}

func (s *Memory) memHostAlloc(call *core.Call, in *wire.MemHostAlloc, out *wire.MemHostAllocReply) error {
	const portable, deviceMap, writeCombined = 1, 2, 4
	if in.Flags&^(portable|deviceMap|writeCombined) != 0 {
		return core.Invalid("allocate pinned memory", "flags")
	}
	return s.allocatePinned(call, in.Bytesize, false, func(r gpu.Range) { out.Pp = r.Address })
}

// allocatePinned enters pages of the arena as an allocation. placed is told where they are.
func (s *Memory) allocatePinned(call *core.Call, bytes uint64, managed bool, placed func(gpu.Range)) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	maker := call.Maker()
	return s.reclaim.Retry(call, func() error {
		r, err := s.AllocatePages(bytes)
		if err != nil {
			return err
		}
		a := &allocation{bounds: r, managed: managed}
		a.object = s.Objects.Add(
			&object.Object{ID: r.Address, Kind: object.KindPinned, Maker: maker, Parent: c.Object, State: a},
		)
		placed(r)
		return nil
	})
}

// AllocatePages takes pages of the arena and maps them in every device that is open. It needs no
// lock of the session.
func (s *Memory) AllocatePages(bytes uint64) (gpu.Range, error) { return s.host.allocate(bytes) }

// FreePages unmaps pages of the arena and gives them back; if frees are deferred, when all GPUs are
// idle. It needs no lock of the session.
func (s *Memory) FreePages(r gpu.Range) { s.host.free(r) }

func (s *Memory) memFreeHost(call *core.Call, in *wire.MemFreeHost) error {
	if in.P == 0 {
		return nil
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	o := s.Objects.Get(in.P)
	if o == nil || o.Kind != object.KindPinned || o.State.(*allocation).managed {
		return core.Invalid("free pinned memory", "the address is not that of a pinned allocation")
	}
	s.freeLater(o.State.(*allocation), nil)
	return nil
}

// Save writes the allocation.
func (a *allocation) Save(*core.Encoder) saved.State {
	out := &saved.Memory{Bytes: a.bounds.Bytes, Managed: a.managed, Export: a.export}
	if a.pool != nil && a.pool.object.State == a.pool {
		out.Pool = a.pool.object.Handle()
	}
	return out
}

// restoreAllocation finds memory that place has taken already.
func (s *Memory) restoreAllocation(r *core.Decoder, o *object.Object, in *saved.Memory) (*allocation, error) {
	if _, err := core.ParentOf[*core.Context](o); err != nil {
		return nil, err
	}
	a := &allocation{object: o, bounds: gpu.Range{Address: o.ID, Bytes: in.Bytes}, managed: in.Managed}
	if o.Kind == object.KindMemory {
		a.heap = s.holder(o.ID).Heap
	}
	if in.Pool != 0 {
		p, err := s.pool(in.Pool)
		if err != nil {
			return nil, err
		}
		a.pool = p
	}
	if in.Export != (ipc.ID{}) {
		return a, s.restoreExportAgain(r, a, in.Export)
	}
	return a, nil
}

// AllocationAt is the start of the memory that an address lies in.
func (s *Memory) AllocationAt(address uint64) (start uint64, found bool) {
	for _, d := range s.Devices {
		if d.Heap == nil || address < d.Window.Address || address >= d.Window.End() {
			continue
		}
		r, found := d.Heap.Find(address)
		return r.Address, found
	}
	r, found := s.arena.Find(address)
	return r.Address, found
}

// PinnedBytes is what the program has of the arena.
func (s *Memory) PinnedBytes() uint64 {
	used := s.arena.Usage()
	return used - min(used, s.reclaim.PinnedBytes())
}

// ArenaRanges lists the pages of the arena that are in use, by address.
func (s *Memory) ArenaRanges() []gpu.Range {
	var ranges []gpu.Range
	for r := range s.arena.Allocations() {
		r.Bytes = (r.Bytes + heap.PageBytes - 1) &^ (heap.PageBytes - 1)
		ranges = append(ranges, r)
	}
	return ranges
}
