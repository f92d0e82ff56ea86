package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/exports"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (s *Memory) ipcExport(call *core.Call, in *wire.IpcExport, out *wire.IpcExportReply) error {
	if err := s.unsafe(call); err != nil {
		return err
	}
	a, d := s.exportable(in.Dptr)
	if a == nil {
		return core.Invalid("export memory", "it is not that of cuMemAlloc")
	}
	tell := func() {
		token := ipc.Token{Exporter: s.Exports.Name(), Key: a.export}
		out.Exporter0, out.Exporter1 = exports.Halves(token.Exporter)
		out.Key0, out.Key1 = exports.Halves(token.Key)
	}
	if a.export != (ipc.ID{}) {
		tell()
		return nil
	}
	what, err := share(a, d)
	if err != nil {
		return err
	}
	offer := func() error {
		key := ipc.NewID()
		if err := s.Exports.Offer(key, what); err != nil {
			return err
		}
		a.export = key
		tell()
		return nil
	}
	k, ok := what.Memory.(gpu.ReclaimableMemory)
	if !ok || k.Consolidated(what.Chunks) {
		return offer()
	}
	return s.reclaim.AfterWork(call, func() error {
		if still, _ := s.exportable(in.Dptr); still != a {
			return core.Invalid("export memory", "it was freed by another thread")
		}
		if err := k.Consolidate(what.Chunks); err != nil {
			return err
		}
		return offer()
	})
}

// exportable is the allocation that an address lies in, if it can be exported.
func (s *Memory) exportable(address uint64) (*allocation, *core.Device) {
	d := s.holder(address)
	if d == nil || d.Heap == nil {
		return nil, nil
	}
	r, found := d.Heap.Find(address)
	if !found {
		return nil, nil
	}
	if o := s.Objects.Get(r.Address); o != nil {
		if a, ok := o.State.(*allocation); ok && a.heap != nil && a.pool == nil {
			return a, d
		}
	}
	return nil, nil
}

// restoreExportAgain offers an allocation again that had a key when it was saved.
func (s *Memory) restoreExportAgain(r *core.Decoder, a *allocation, key ipc.ID) error {
	if a.heap == nil {
		return core.Damaged("it cannot have been exported")
	}
	a.export = key
	what, err := share(a, s.holder(a.bounds.Address))
	if err != nil {
		return err
	}
	return s.RestoreExport(r, key, what)
}

// share is an allocation as others can have it.
func share(a *allocation, d *core.Device) (exports.Offer, error) {
	memory, err := d.Sharer()
	first := a.bounds.Address &^ (gpu.ChunkBytes - 1)
	end := (a.bounds.End() + gpu.ChunkBytes - 1) &^ (gpu.ChunkBytes - 1)
	return exports.Offer{
		Ordinal: d.Machine, Memory: memory, Chunks: gpu.Range{Address: first, Bytes: end - first},
		Within: a.bounds.Address - first, Bytes: a.bounds.Bytes,
	}, err
}

// imported is another process's memory.
type imported struct {
	object  *object.Object
	context *core.Context
	token   ipc.Token
	// home is whole chunks, bounds what the other has allocated there.
	home, bounds gpu.Range
	references   uint32
}

// importAt is the memory of another process that an address lies in, nil for none.
func (s *Memory) importAt(address uint64) *imported {
	for _, i := range s.imports {
		if i.bounds.Contains(gpu.Range{Address: address, Bytes: 1}) {
			return i
		}
	}
	return nil
}

func (s *Memory) ipcOpen(call *core.Call, in *wire.IpcOpen, out *wire.IpcOpenReply) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	token := ipc.Token{Exporter: exports.Join(in.Exporter0, in.Exporter1), Key: exports.Join(in.Key0, in.Key1)}
	if token.Exporter == s.Exports.Name() {
		return &gpu.Error{Op: "open shared memory", Code: abi.InvalidContext, Detail: "it is this process's own"}
	}
	if done, err := s.openAgain(c, token, out); done {
		return err
	}
	release := c.Hold(nil)
	return call.Detach(func() error {
		defer release()
		g, err := s.Exports.Dir.Fetch(ipc.Memory, token)
		if err != nil {
			return err
		}
		defer g.File.Close()
		s.Mu.Lock()
		defer s.Mu.Unlock()
		if done, err := s.openAgain(c, token, out); done {
			return err
		}
		i, err := s.addImport(c, token, &g)
		if err == nil {
			out.Dptr, out.Bytes = i.bounds.Address, i.bounds.Bytes
		}
		return err
	})
}

// openAgain counts one more use of what is open already. One context of a GPU can have it.
func (s *Memory) openAgain(c *core.Context, token ipc.Token, out *wire.IpcOpenReply) (done bool, err error) {
	for _, i := range s.imports {
		if i.token != token || i.context.Device != c.Device {
			continue
		}
		if i.context != c {
			return true, &gpu.Error{
				Op:     "open shared memory",
				Code:   abi.InvalidContext,
				Detail: "another context has it",
			}
		}
		i.references++
		out.Dptr, out.Bytes = i.bounds.Address, i.bounds.Bytes
		return true, nil
	}
	return false, nil
}

// addImport enters what was granted.
func (s *Memory) addImport(c *core.Context, token ipc.Token, g *ipc.Grant) (*imported, error) {
	if c.Ending || c.Device.GPU == nil {
		return nil, &gpu.Error{Op: "open shared memory", Code: abi.ContextIsDestroyed}
	}
	memory, err := c.Device.Sharer()
	if err != nil {
		return nil, err
	}
	if d := s.OfMachine(g.Ordinal); d == nil || d != c.Device && !c.Device.CanReach(d.Ordinal) {
		detail := fmt.Sprintf("it is memory of GPU %d of the machine, which GPU %d cannot reach", g.Ordinal, c.Device.Machine)
		return nil, &gpu.Error{Op: "open shared memory", Code: abi.PeerAccessUnsupported, Detail: detail}
	}
	place, err := s.virtual.ReserveImport(c.Device.Ordinal, g.FileBytes)
	if err != nil {
		return nil, err
	}
	if err := memory.Import(place, g.File, int64(g.Offset)); err != nil {
		_ = s.virtual.Free(place) // the first error says more
		return nil, err
	}
	i := &imported{
		context: c, token: token, home: place, references: 1,
		bounds: gpu.Range{Address: place.Address + g.Within, Bytes: g.Bytes},
	}
	i.object = s.Objects.Add(
		&object.Object{ID: i.bounds.Address, Kind: object.KindImported, Parent: c.Object, State: i},
	)
	s.imports = append(s.imports, i)
	return i, nil
}

// ipcClose waits, the last time, for what was submitted before.
func (s *Memory) ipcClose(call *core.Call, in *wire.IpcClose, out *wire.IpcCloseReply) error {
	i := s.importAt(in.Dptr)
	if i == nil || i.bounds.Address != in.Dptr {
		return core.Invalid("close shared memory", "nothing was opened at that address")
	}
	if i.references--; i.references > 0 {
		return nil
	}
	out.Closed = 1
	return s.reclaim.AfterWork(call, func() error {
		if i.references == 0 && slices.Contains(s.imports, i) {
			s.Destroy(i.object)
		}
		return nil
	})
}

// drop gives the memory up. The other process keeps it.
func (i *imported) drop(s *Memory) {
	s.imports = slices.DeleteFunc(s.imports, func(other *imported) bool { return other == i })
	if c := i.context.Device.GPU; c != nil {
		if err := c.Memory().Unmap(i.home); err != nil {
			s.Log.Warn("close shared memory", "address", i.home.Address, "error", err)
		}
		s.reclaim.Freed()
	}
	_ = s.virtual.Free(i.home) // it was reserved with it
}

// Save notes where the memory is to be had again: its content belongs to the session that has
// exported it.
func (i *imported) Save(e *core.Encoder) saved.State {
	if !e.Exporters.Alive(i.token.Exporter) {
		e.Fail(&gpu.Error{
			Op: "save session", Code: abi.NotSupported,
			Detail: fmt.Sprintf(
				"the memory at %#x is shared by a program that has ended: close it first",
				i.bounds.Address,
			),
		})
	}
	return &saved.Import{Token: i.token, Home: i.home, Bytes: i.bounds.Bytes, References: i.references}
}

// restoreImported makes what stands for the memory; Reopen opens the memory itself.
func (s *Memory) restoreImported(o *object.Object, in *saved.Import) (*imported, error) {
	c, err := core.ParentOf[*core.Context](o)
	if err != nil {
		return nil, err
	}
	i := &imported{
		object: o, context: c, token: in.Token, home: in.Home, references: in.References,
		bounds: gpu.Range{Address: o.ID, Bytes: in.Bytes},
	}
	if !in.Home.Contains(i.bounds) || in.References == 0 {
		return nil, core.Damaged("it is no memory of another process")
	}
	s.imports = append(s.imports, i)
	return i, nil
}

// Reopen opens the memory of other sessions again.
func (s *Memory) Reopen(ctx context.Context) error {
	for _, i := range s.imports {
		if err := i.reopen(ctx, s.Exports.Dir); err != nil {
			return fmt.Errorf("memory at %#x of another program: %w", i.bounds.Address, err)
		}
	}
	for o := range s.Objects.Records() {
		if b, ok := o.State.(*block); ok && b.foreign() {
			if err := b.reopen(ctx, s); err != nil {
				return fmt.Errorf("%v of another program: %w", o.Handle(), err)
			}
		}
	}
	return nil
}

// reopen maps the memory at its old address, if the exporter still has it there with the same size.
func (i *imported) reopen(ctx context.Context, dir ipc.Dir) error {
	g, err := dir.Await(ctx, ipc.Memory, i.token)
	if err != nil {
		return err
	}
	return reopenAt(i.context.Device, &g, i.home, func(g *ipc.Grant) bool {
		return i.home.Address+g.Within == i.bounds.Address && g.Bytes == i.bounds.Bytes
	})
}

// reopenAt maps granted memory of another session where it was; same reports whether it is what it
// was. It closes the grant's file.
func reopenAt(d *core.Device, g *ipc.Grant, home gpu.Range, same func(*ipc.Grant) bool) error {
	defer g.File.Close()
	memory, err := d.Sharer()
	if err != nil {
		return err
	}
	if g.FileBytes != home.Bytes || !same(g) {
		return errors.New("it is another one than it was")
	}
	return memory.Import(home, g.File, int64(g.Offset))
}
