package session

import (
	"errors"
	"fmt"
	"math"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/daemon/worker/session/virtual"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// block is memory that the program maps where it likes. It lies in the heap of its device, at an
// address that the program is not told; mappings show it at others.
type block struct {
	object      *object.Object
	device      *device
	home        gpu.Range
	handleTypes uint32
	capable     bool // of direct access by other hardware, says the program; remembered only
	// references counts what cuMemRelease has to take back; at 0 the handle means nothing, though
	// mappings may live on.
	references uint32
	mappings   int
	// token is how other sessions have it, or this one from another; the exporter is zero for what is
	// this session's own.
	token ipc.Token
}

// foreign says that the memory is another session's.
func (b *block) foreign() bool { return b.token.Exporter != (ipc.ID{}) }

// retain counts one more thing that cuMemRelease has to take back.
func (b *block) retain() error {
	if b.references == math.MaxUint32 {
		return abi.OutOfMemory
	}
	b.references++
	return nil
}

func (s *Session) vmmCreate(call *Call, in *wire.VmmCreate, out *wire.VmmCreateReply) error {
	const posix = 1
	d, err := s.device(in.Device)
	if err != nil {
		return err
	}
	if in.Size == 0 || in.Size%gpu.ChunkBytes != 0 || in.HandleTypes&^posix != 0 {
		return invalid("create memory", "size or handle types")
	}
	if in.HandleTypes != 0 && !d.shares() {
		return &gpu.Error{
			Op:     "create memory",
			Code:   abi.NotSupported,
			Detail: fmt.Sprintf("GPU %d, %s, cannot share memory", in.Device, d.info.Name),
		}
	}
	maker := call.maker()
	return s.persist(call, func() error {
		if err := s.wake(d); err != nil {
			return err
		}
		b, err := s.newBlock(d, in, maker)
		if err != nil {
			s.rest(d)
			return err
		}
		out.Handle = b.object.Handle()
		return nil
	})
}

func (s *Session) newBlock(d *device, in *wire.VmmCreate, maker object.Maker) (*block, error) {
	if _, can := d.context.Memory().(gpu.Aliaser); !can {
		return nil, cannotMap(d)
	}
	home, err := d.heap.AllocateHome(in.Size)
	if err != nil {
		return nil, err
	}
	b := &block{device: d, home: home, handleTypes: in.HandleTypes, capable: in.Capable != 0, references: 1}
	b.object = s.objects.Add(
		&object.Object{
			ID:    uint64(s.objects.NextHandle(abi.KindAllocation)),
			Kind:  abi.KindAllocation,
			Maker: maker,
			State: b,
		},
	)
	d.blocks++
	return b, nil
}

// block returns what a handle stands for that the program has not released.
func (s *Session) block(h abi.Handle) (*block, error) {
	b, err := find[*block](s, abi.KindAllocation, h)
	if err == nil && b.references == 0 {
		return nil, object.Missing(abi.KindAllocation, h)
	}
	return b, err
}

// mapped is what a mapping shows. It lives as long as the mapping.
func (s *Session) mapped(m *virtual.Mapping) *block {
	return s.objects.Get(uint64(m.Allocation)).State.(*block)
}

func (s *Session) memRelease(_ *Call, in *wire.MemRelease) error {
	b, err := s.block(in.Handle)
	if err != nil {
		return err
	}
	b.references--
	s.dropBlock(b)
	return nil
}

// dropBlock frees memory that nothing leads to any more.
func (s *Session) dropBlock(b *block) {
	if b.references > 0 || b.mappings > 0 {
		return
	}
	s.objects.Destroy(b.object, func(*object.Object) {})
	if err := s.freeBlock(b); err != nil {
		s.log.Warn("free memory", "address", b.home.Address, "error", err)
	}
	s.freed()
	b.device.blocks--
	s.rest(b.device)
}

func (s *Session) freeBlock(b *block) error {
	if b.foreign() {
		return errors.Join(b.device.context.Memory().Unmap(b.home), s.virtual.Free(b.home))
	}
	if b.token.Key != (ipc.ID{}) {
		s.shares.withdraw(b.token.Key)
	}
	return b.device.heap.Free(b.home.Address)
}

func (s *Session) memRetainAllocationHandle(
	_ *Call,
	in *wire.MemRetainAllocationHandle,
	out *wire.MemRetainAllocationHandleReply,
) error {
	m := s.virtual.At(in.Addr)
	if m == nil {
		return invalid("retain allocation", "nothing is mapped there")
	}
	b := s.mapped(m)
	out.Handle = b.object.Handle()
	return b.retain()
}

func (s *Session) vmmProperties(_ *Call, in *wire.VmmProperties, out *wire.VmmPropertiesReply) error {
	b, err := s.block(in.Handle)
	if err != nil {
		return err
	}
	out.Device, out.HandleTypes = int32(b.device.ordinal), b.handleTypes
	if b.capable {
		out.Capable = 1
	}
	return nil
}

func (b *block) save(k *saving) saved.State {
	if b.foreign() && !ipc.Alive(b.token.Exporter) {
		k.fail(&gpu.Error{
			Op: "save session", Code: abi.NotSupported,
			Detail: b.object.Handle().String() + " is shared by a program that has ended: release it first",
		})
	}
	return &saved.Block{
		Device: int32(
			b.device.ordinal,
		), Home: b.home, HandleTypes: b.handleTypes, Capable: b.capable, References: b.references,
		Token: b.token,
	}
}

// restoreBlock finds memory that place has taken already.
func (s *Session) restoreBlock(r *restoring, o *object.Object, in *saved.Block) (*block, error) {
	d, err := s.device(in.Device)
	if err != nil {
		return nil, err
	}
	if s.holder(in.Home.Address) != d || in.Home.Bytes == 0 || (in.Home.Address|in.Home.Bytes)%gpu.ChunkBytes != 0 ||
		o.Owner != nil {
		return nil, damaged("it is no memory of GPU %d", in.Device)
	}
	d.blocks++
	b := &block{
		object: o, device: d, home: in.Home, handleTypes: in.HandleTypes, capable: in.Capable, references: in.References,
		token: in.Token,
	}
	if b.foreign() || b.token.Key == (ipc.ID{}) {
		return b, nil
	}
	what, err := b.shared()
	if err != nil {
		return nil, err
	}
	return b, s.restoreExport(r, b.token.Key, what)
}
