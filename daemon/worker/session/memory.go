package session

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
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

// free gives the memory back at once. It needs no lock.
func (a *allocation) free(s *Session) {
	if a.export != (ipc.ID{}) {
		s.shares.withdraw(a.export)
	}
	var err error
	if a.heap == nil {
		err = s.freePinned(a.bounds)
	} else {
		err = a.heap.Free(a.bounds.Address)
		if a.pool != nil {
			a.pool.count(-int64(a.bounds.Bytes))
		}
	}
	if err != nil {
		s.log.Warn("free memory", "address", a.bounds.Address, "error", err)
	}
	s.freed()
}

// unsafe is the rule for calls that a capture in global mode forbids everywhere.
func (s *Session) unsafe(call *Call) error { return s.captures.Unsafe(call.Slot, call.mode()) }

// request is an allocation of device memory on its way.
type request struct {
	owner *object.Object
	maker object.Maker
	pool  *pool
	// placed is told where the memory is.
	placed func(r gpu.Range)
}

// allocate finds device memory.
func (s *Session) allocate(call *Call, d *device, bytes uint64, request request) error {
	return s.persist(call, func() error {
		if d.heap == nil {
			return &gpu.Error{Op: "allocate device memory", Code: abi.ContextIsDestroyed}
		}
		r, err := d.heap.Allocate(bytes)
		if err != nil {
			return err
		}
		a := &allocation{bounds: r, heap: d.heap, pool: request.pool}
		if a.pool != nil {
			a.pool.count(int64(bytes))
		}
		a.object = s.objects.Add(
			&object.Object{
				ID:    r.Address,
				Kind:  object.KindMemory,
				Maker: request.maker,
				Owner: request.owner,
				State: a,
			},
		)
		request.placed(r)
		return nil
	})
}

func (s *Session) memGetInfo(call *Call, out *wire.MemGetInfoReply) error {
	c, err := s.current(call)
	if err == nil {
		out.Free, out.Total = c.device.context.Memory().Usage()
	}
	return err
}

func (s *Session) memAlloc(call *Call, in *wire.MemAlloc, out *wire.MemAllocReply) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	return s.allocate(call, c.device, in.Bytesize, request{
		owner: c.object, maker: call.maker(),
		placed: func(r gpu.Range) { out.Dptr = r.Address },
	})
}

func (s *Session) memAllocPitch(call *Call, in *wire.MemAllocPitch, out *wire.MemAllocPitchReply) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	if e := in.ElementSizeBytes; e != 4 && e != 8 && e != 16 || in.WidthInBytes == 0 || in.WidthInBytes > 1<<40 {
		return invalid("allocate pitched memory", "element size or width")
	}
	pitch := (in.WidthInBytes + heap.Align - 1) &^ (heap.Align - 1)
	over, bytes := bits.Mul64(pitch, in.Height)
	if over != 0 {
		return abi.OutOfMemory
	}
	return s.allocate(call, c.device, bytes, request{
		owner: c.object, maker: call.maker(),
		placed: func(r gpu.Range) { out.Dptr, out.PPitch = r.Address, pitch },
	})
}

// memFree frees after everything that was submitted before it.
func (s *Session) memFree(call *Call, in *wire.MemFree) error {
	if in.Dptr == 0 {
		return nil
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	o := s.objects.Get(in.Dptr)
	if o == nil {
		return invalid("free device memory", "the address is not that of an allocation")
	}
	a, is := o.State.(*allocation)
	if !is || a.heap == nil && !a.managed {
		return invalid("free device memory", "the address is that of pinned memory")
	}
	s.freeLater(a, s.holder(in.Dptr))
	return nil
}

func (s *Session) freeLater(a *allocation, d *device) {
	s.objects.Destroy(a.object, func(*object.Object) {})
	s.afterAll(d, func() { a.free(s) })
}

func (s *Session) memAllocManaged(call *Call, in *wire.MemAllocManaged, out *wire.MemAllocManagedReply) error {
	const attachGlobal, attachHost = 1, 2
	if in.Flags != attachGlobal && in.Flags != attachHost {
		return invalid("allocate managed memory", "flags")
	}
	return s.allocatePinned(call, in.Bytesize, true, func(r gpu.Range) { out.Dptr = r.Address })
}

func (s *Session) memHostAlloc(call *Call, in *wire.MemHostAlloc, out *wire.MemHostAllocReply) error {
	const portable, deviceMap, writeCombined = 1, 2, 4
	if in.Flags&^(portable|deviceMap|writeCombined) != 0 {
		return invalid("allocate pinned memory", "flags")
	}
	return s.allocatePinned(call, in.Bytesize, false, func(r gpu.Range) { out.Pp = r.Address })
}

// allocatePinned enters pages of the arena as an allocation. placed is told where they are.
func (s *Session) allocatePinned(call *Call, bytes uint64, managed bool, placed func(gpu.Range)) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	maker := call.maker()
	return s.persist(call, func() error {
		r, err := s.showArena(bytes)
		if err != nil {
			return err
		}
		a := &allocation{bounds: r, managed: managed}
		a.object = s.objects.Add(
			&object.Object{ID: r.Address, Kind: object.KindPinned, Maker: maker, Owner: c.object, State: a},
		)
		placed(r)
		return nil
	})
}

// shown keeps pages of the arena and open devices in step: every device that is open has every
// allocation mapped. Modules with managed variables are loaded while no lock of the session is
// held, and devices open and close meanwhile.
type shown struct {
	mu         sync.Mutex             // guards the devices' opened, and what is mapped in them
	registered map[uint64]*registered // the program's own memory, by address
}

// showArena takes pages of the arena and maps them in every device that is open. It needs no lock
// of the session.
func (s *Session) showArena(bytes uint64) (gpu.Range, error) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	r, err := s.arena.Allocate(bytes)
	if err != nil {
		return gpu.Range{}, err
	}
	for _, d := range s.devices {
		c := d.opened.Load()
		if c == nil {
			continue
		}
		if err := mapHost(*c, s.options.Arena, r); err != nil {
			_ = s.hideAndFree(r)
			return gpu.Range{}, err
		}
	}
	return r, nil
}

// freePinned hides pages from the devices and gives them back, where that has to wait for a rest,
// then. It needs no lock of the session.
func (s *Session) freePinned(r gpu.Range) error {
	free := func() error {
		s.shown.mu.Lock()
		defer s.shown.mu.Unlock()
		return s.hideAndFree(r)
	}
	if !s.defers() {
		return free()
	}
	s.later(r.Bytes, func() {
		if err := free(); err != nil {
			s.log.Warn("free pinned memory", "address", r.Address, "error", err)
		}
	})
	return nil
}

func (s *Session) hideAndFree(r gpu.Range) error {
	s.hideEverywhere(r.Address)
	return s.arena.Free(r.Address)
}

func (s *Session) hideEverywhere(address uint64) {
	for _, d := range s.devices {
		if c := d.opened.Load(); c != nil {
			_ = (*c).Memory().UnmapHost(address) // was perhaps never mapped there
		}
	}
}

// showAll makes a device one of those that are open. A kernel finds there what the program has
// pinned, or there is no device.
func (s *Session) showAll(d *device, c gpu.Context) error {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	d.opened.Store(&c)
	for r := range s.arena.Allocations() {
		if err := mapHost(c, s.options.Arena, r); err != nil {
			return fmt.Errorf("show pinned memory to GPU %d: %w", d.ordinal, err)
		}
	}
	for address, g := range s.shown.registered {
		if err := c.Memory().MapHost(address, g.shared.Memory()); err != nil {
			return fmt.Errorf("show registered memory to GPU %d: %w", d.ordinal, err)
		}
	}
	return nil
}

// showNothing comes before a device is closed: nobody maps anything there any more.
func (s *Session) showNothing(d *device) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	d.opened.Store(nil)
}

func (s *Session) memFreeHost(call *Call, in *wire.MemFreeHost) error {
	if in.P == 0 {
		return nil
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	o := s.objects.Get(in.P)
	if o == nil || o.Kind != object.KindPinned || o.State.(*allocation).managed {
		return invalid("free pinned memory", "the address is not that of a pinned allocation")
	}
	s.freeLater(o.State.(*allocation), nil)
	return nil
}

func (a *allocation) save(*saving) saved.State {
	out := &saved.Memory{Bytes: a.bounds.Bytes, Managed: a.managed, Export: a.export}
	if a.pool != nil && a.pool.object.State == a.pool {
		out.Pool = a.pool.object.Handle()
	}
	return out
}

// restoreAllocation finds memory that place has taken already.
func (s *Session) restoreAllocation(r *restoring, o *object.Object, in *saved.Memory) (*allocation, error) {
	if _, err := ownerOf[*context](o); err != nil {
		return nil, err
	}
	a := &allocation{object: o, bounds: gpu.Range{Address: o.ID, Bytes: in.Bytes}, managed: in.Managed}
	if o.Kind == object.KindMemory {
		a.heap = s.holder(o.ID).heap
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
