package memory

import (
	"errors"
	"fmt"
	"math"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
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
	device      *core.Device
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

func (s *Memory) vmmCreate(call *core.Call, in *wire.VmmCreate, out *wire.VmmCreateReply) error {
	const posix = 1
	d, err := s.Device(in.Device)
	if err != nil {
		return err
	}
	if in.Size == 0 || in.Size%gpu.ChunkBytes != 0 || in.HandleTypes&^posix != 0 {
		return core.Invalid("create memory", "size or handle types")
	}
	if in.HandleTypes != 0 && !d.CanShare() {
		return &gpu.Error{
			Op:     "create memory",
			Code:   abi.NotSupported,
			Detail: fmt.Sprintf("GPU %d, %s, cannot share memory", in.Device, d.Info.Name),
		}
	}
	maker := call.Maker()
	return s.reclaim.Retry(call, func() error {
		if err := s.ensureOpen(d); err != nil {
			return err
		}
		b, err := s.newBlock(d, in, maker)
		if err != nil {
			s.closeLater(d)
			return err
		}
		out.Handle = b.object.Handle()
		return nil
	})
}

func (s *Memory) newBlock(d *core.Device, in *wire.VmmCreate, maker object.Maker) (*block, error) {
	if _, ok := d.GPU.Memory().(gpu.Aliaser); !ok {
		return nil, cannotMap(d)
	}
	home, err := d.Heap.AllocateHome(in.Size)
	if err != nil {
		return nil, err
	}
	b := &block{device: d, home: home, handleTypes: in.HandleTypes, capable: in.Capable != 0, references: 1}
	b.object = s.Objects.Add(
		&object.Object{
			ID:    uint64(s.Objects.NextHandle(abi.KindAllocation)),
			Kind:  abi.KindAllocation,
			Maker: maker,
			State: b,
		},
	)
	d.Blocks++
	return b, nil
}

// block returns what a handle stands for that the program has not released.
func (s *Memory) block(h abi.Handle) (*block, error) {
	b, err := core.Find[*block](s.Core, abi.KindAllocation, h)
	if err == nil && b.references == 0 {
		return nil, object.Missing(abi.KindAllocation, h)
	}
	return b, err
}

// mapped is what a mapping shows. It lives as long as the mapping.
func (s *Memory) mapped(m *virtual.Mapping) *block {
	return s.Objects.Get(uint64(m.Allocation)).State.(*block)
}

func (s *Memory) memRelease(_ *core.Call, in *wire.MemRelease) error {
	b, err := s.block(in.Handle)
	if err != nil {
		return err
	}
	b.references--
	s.dropBlock(b)
	return nil
}

// dropBlock frees a block that has no references and no mappings.
func (s *Memory) dropBlock(b *block) {
	if b.references > 0 || b.mappings > 0 {
		return
	}
	s.Objects.Destroy(b.object, func(*object.Object) {})
	if err := s.freeBlock(b); err != nil {
		s.Log.Warn("free memory", "address", b.home.Address, "error", err)
	}
	s.reclaim.Freed()
	b.device.Blocks--
	s.closeLater(b.device)
}

// freeBlock releases a block's memory: an imported one is unmapped, an exported one withdrawn.
func (s *Memory) freeBlock(b *block) error {
	if b.foreign() {
		return errors.Join(b.device.GPU.Memory().Unmap(b.home), s.virtual.Free(b.home))
	}
	if b.token.Key != (ipc.ID{}) {
		s.Exports.Withdraw(b.token.Key)
	}
	return b.device.Heap.Free(b.home.Address)
}

func (s *Memory) memRetainAllocationHandle(
	_ *core.Call,
	in *wire.MemRetainAllocationHandle,
	out *wire.MemRetainAllocationHandleReply,
) error {
	m := s.virtual.At(in.Addr)
	if m == nil {
		return core.Invalid("retain allocation", "nothing is mapped there")
	}
	b := s.mapped(m)
	out.Handle = b.object.Handle()
	return b.retain()
}

func (s *Memory) vmmProperties(_ *core.Call, in *wire.VmmProperties, out *wire.VmmPropertiesReply) error {
	b, err := s.block(in.Handle)
	if err != nil {
		return err
	}
	out.Device, out.HandleTypes = int32(b.device.Ordinal), b.handleTypes
	if b.capable {
		out.Capable = 1
	}
	return nil
}

func (b *block) Save(e *core.Encoder) saved.State {
	if b.foreign() && !e.Exporters.Alive(b.token.Exporter) {
		e.Fail(&gpu.Error{
			Op: "save session", Code: abi.NotSupported,
			Detail: b.object.Handle().String() + " is shared by a program that has ended: release it first",
		})
	}
	return &saved.Block{
		Device: int32(
			b.device.Ordinal,
		), Home: b.home, HandleTypes: b.handleTypes, Capable: b.capable, References: b.references,
		Token: b.token,
	}
}

// restoreBlock finds memory that place has taken already.
func (s *Memory) restoreBlock(r *core.Decoder, o *object.Object, in *saved.Block) (*block, error) {
	d, err := s.Device(in.Device)
	if err != nil {
		return nil, err
	}
	if s.holder(in.Home.Address) != d || in.Home.Bytes == 0 || (in.Home.Address|in.Home.Bytes)%gpu.ChunkBytes != 0 ||
		o.Parent != nil {
		return nil, core.Damaged("it is no memory of GPU %d", in.Device)
	}
	d.Blocks++
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
	return b, s.RestoreExport(r, b.token.Key, what)
}
