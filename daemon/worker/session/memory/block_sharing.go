package memory

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/exports"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/virtual"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// vmmExport makes a token of a block. The library puts it into a file, of which the program passes
// on a descriptor.
func (s *Memory) vmmExport(_ *core.Call, in *wire.VmmExport, out *wire.VmmExportReply) error {
	const posix = 1
	b, err := s.block(in.Handle)
	if err != nil {
		return err
	}
	if b.handleTypes&posix == 0 {
		return core.Invalid("export memory", "it was not made for being exported")
	}
	token, err := s.tokenOf(b)
	if err != nil {
		return err
	}
	out.Exporter0, out.Exporter1 = exports.Halves(token.Exporter)
	out.Key0, out.Key1 = exports.Halves(token.Key)
	return nil
}

// tokenOf is the token by which other sessions have a block, or this one has it.
func (s *Memory) tokenOf(b *block) (ipc.Token, error) {
	if b.foreign() {
		return b.token, nil
	}
	if b.token.Key == (ipc.ID{}) {
		key := ipc.NewID()
		what, err := b.shared()
		if err == nil {
			err = s.Exports.Offer(key, what)
		}
		if err != nil {
			return ipc.Token{}, err
		}
		b.token.Key = key
	}
	return ipc.Token{Exporter: s.Exports.Name(), Key: b.token.Key}, nil
}

// shared returns the offer by which other sessions can import the block.
func (b *block) shared() (exports.Offer, error) {
	memory, err := b.device.Sharer()
	return exports.Offer{Ordinal: b.device.Machine, Memory: memory, Chunks: b.home, Bytes: b.home.Bytes}, err
}

func (s *Memory) vmmImport(call *core.Call, in *wire.VmmImport, out *wire.VmmImportReply) error {
	token := ipc.Token{Exporter: exports.Join(in.Exporter0, in.Exporter1), Key: exports.Join(in.Key0, in.Key1)}
	if token.Key == (ipc.ID{}) {
		return core.Invalid("import memory", "no token")
	}
	if b := s.importedBlock(token); b != nil {
		out.Handle = b.object.Handle()
		return b.retain()
	}
	maker := call.Maker()
	return call.Detach(func() error {
		g, err := s.Exports.Dir.Fetch(ipc.Memory, token)
		if err != nil {
			return err
		}
		defer g.File.Close()
		s.Mu.Lock()
		defer s.Mu.Unlock()
		b := s.importedBlock(token)
		if b == nil {
			if b, err = s.importBlock(token, &g, maker); err != nil {
				return err
			}
		}
		out.Handle = b.object.Handle()
		return b.retain()
	})
}

// importedBlock is the block that a token means, nil where this session does not have it yet.
func (s *Memory) importedBlock(token ipc.Token) *block {
	own := token.Exporter == s.Exports.Name()
	for o := range s.Objects.Records() {
		b, ok := o.State.(*block)
		if ok && b.token.Key == token.Key && (b.token.Exporter == token.Exporter || own && !b.foreign()) {
			return b
		}
	}
	return nil
}

// importBlock makes a block of memory that another session has granted. It has no references yet.
func (s *Memory) importBlock(token ipc.Token, g *ipc.Grant, maker object.Maker) (*block, error) {
	d := s.OfMachine(g.Ordinal)
	if d == nil {
		detail := fmt.Sprintf("it is memory of GPU %d of the machine, which the program does not see", g.Ordinal)
		return nil, &gpu.Error{Op: "import memory", Code: abi.InvalidDevice, Detail: detail}
	}
	if g.Within != 0 || g.Bytes != g.FileBytes || g.Bytes%gpu.ChunkBytes != 0 {
		return nil, core.Invalid("import memory", "it is not that of cuMemCreate")
	}
	if err := s.ensureOpen(d); err != nil {
		return nil, err
	}
	place, err := s.mapImport(d, g)
	if err != nil {
		s.closeLater(d)
		return nil, err
	}
	b := &block{device: d, home: place, handleTypes: 1, token: token}
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

func (s *Memory) mapImport(d *core.Device, g *ipc.Grant) (gpu.Range, error) {
	memory, err := d.Sharer()
	if err != nil {
		return gpu.Range{}, err
	}
	place, err := s.virtual.ReserveImport(d.Ordinal, g.FileBytes)
	if err != nil {
		return gpu.Range{}, err
	}
	if err := memory.Import(place, g.File, int64(g.Offset)); err != nil {
		_ = s.virtual.Free(place) // the first error says more
		return gpu.Range{}, err
	}
	return place, nil
}

// reopen brings the memory of another session back, and shows it where it was mapped.
func (b *block) reopen(ctx context.Context, s *Memory) error {
	g, err := s.Exports.Dir.Await(ctx, ipc.Memory, b.token)
	if err != nil {
		return err
	}
	whole := func(g *ipc.Grant) bool { return g.Bytes == b.home.Bytes && g.Within == 0 }
	if err := reopenAt(b.device, &g, b.home, whole); err != nil {
		return err
	}
	for m := range s.virtual.Mappings() {
		for ordinal, access := range m.Access {
			if m.Allocation != b.object.Handle() || access == virtual.None {
				continue
			}
			if err := s.showMapping(s.Devices[ordinal], m, access); err != nil {
				return fmt.Errorf("map memory at %#x: %w", m.Address, err)
			}
		}
	}
	return nil
}
