package session

import (
	gocontext "context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// shares is what other processes can have of the program's. Other sessions ask for it at any time,
// so that it has a lock of its own, which is never held while another one is taken.
type shares struct {
	mu       sync.Mutex
	exporter ipc.ID // zero while nothing was ever exported
	server   *ipc.Server
	things   map[ipc.ID]exported
}

// exported is an allocation, or an event, that others can have.
type exported struct {
	ordinal       int
	memory        gpu.Sharer
	chunks        gpu.Range // which are shared as a whole
	within, bytes uint64
	// counter is set for an event, and nothing else then.
	counter *ipc.Counter
}

// serve begins to answer, under a name that is new or was this session's before.
func (x *shares) serve(name ipc.ID) error {
	server, err := ipc.Serve(name, x.grant)
	if err != nil {
		return fmt.Errorf("share memory: %w", err)
	}
	x.exporter, x.server = name, server
	return nil
}

// offer makes an allocation one that others can have.
func (x *shares) offer(key ipc.ID, what exported) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.exporter == (ipc.ID{}) {
		if err := x.serve(ipc.NewID()); err != nil {
			return err
		}
	}
	x.enter(key, what)
	return nil
}

// enter notes what a key stands for. mu is held.
func (x *shares) enter(key ipc.ID, what exported) {
	if x.things == nil {
		x.things = map[ipc.ID]exported{}
	}
	x.things[key] = what
}

// put is enter for what had its key before. The name comes when all is there.
func (x *shares) put(key ipc.ID, what exported) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.enter(key, what)
}

// withdraw is for memory that is freed. Who has it keeps it.
func (x *shares) withdraw(key ipc.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.things, key)
}

func (x *shares) name() ipc.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.exporter
}

func (x *shares) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.server != nil {
		x.server.Close()
		x.server = nil
	}
}

// grant answers another session.
func (x *shares) grant(kind ipc.Kind, key ipc.ID) (ipc.Grant, error) {
	x.mu.Lock()
	what, known := x.things[key]
	if known && kind == ipc.Event && what.counter != nil {
		defer x.mu.Unlock() // so that it is not closed meanwhile
		file, err := what.counter.File()
		return ipc.Grant{Kind: kind, File: file}, err
	}
	x.mu.Unlock()
	if !known || kind != ipc.Memory || what.counter != nil {
		return ipc.Grant{}, abi.InvalidHandle
	}
	file, offset, err := what.memory.Share(what.chunks)
	if err != nil {
		return ipc.Grant{}, err
	}
	return ipc.Grant{
		Kind: kind, Ordinal: int32(what.ordinal), File: file, Offset: uint64(offset), FileBytes: what.chunks.Bytes,
		Within: what.within, Bytes: what.bytes,
	}, nil
}

func (s *Session) ipcExport(call *Call, in *wire.IpcExport, out *wire.IpcExportReply) error {
	if err := s.unsafe(call); err != nil {
		return err
	}
	a, d := s.exportable(in.Dptr)
	if a == nil {
		return invalid("export memory", "it is not that of cuMemAlloc")
	}
	tell := func() {
		token := ipc.Token{Exporter: s.shares.name(), Key: a.export}
		out.Exporter0, out.Exporter1 = halves(token.Exporter)
		out.Key0, out.Key1 = halves(token.Key)
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
		if err := s.shares.offer(key, what); err != nil {
			return err
		}
		a.export = key
		tell()
		return nil
	}
	k, keeps := what.memory.(gpu.Keeper)
	if !keeps || k.Gathered(what.chunks) {
		return offer()
	}
	return s.behind(call, func() error {
		if still, _ := s.exportable(in.Dptr); still != a {
			return invalid("export memory", "it was freed meanwhile")
		}
		if err := k.Gather(what.chunks); err != nil {
			return err
		}
		return offer()
	})
}

// exportable is the allocation that an address lies in, if it can be exported.
func (s *Session) exportable(address uint64) (*allocation, *device) {
	d := s.holder(address)
	if d == nil || d.heap == nil {
		return nil, nil
	}
	r, found := d.heap.Find(address)
	if !found {
		return nil, nil
	}
	if o := s.objects.Get(r.Address); o != nil {
		if a, is := o.State.(*allocation); is && a.heap != nil && a.pool == nil {
			return a, d
		}
	}
	return nil, nil
}

// restoreExportAgain offers an allocation again that had a key when it was saved.
func (s *Session) restoreExportAgain(r *restoring, a *allocation, key ipc.ID) error {
	if a.heap == nil {
		return damaged("it cannot have been exported")
	}
	a.export = key
	what, err := share(a, s.holder(a.bounds.Address))
	if err != nil {
		return err
	}
	return s.restoreExport(r, key, what)
}

// restoreExport offers memory under a key. The name comes when all is there.
func (s *Session) restoreExport(r *restoring, key ipc.ID, what exported) error {
	if r.in.Exporter == (ipc.ID{}) {
		return damaged("it cannot have been exported")
	}
	s.shares.put(key, what)
	return nil
}

// share is an allocation as others can have it.
func share(a *allocation, d *device) (exported, error) {
	memory, err := d.sharer()
	first := a.bounds.Address &^ (gpu.ChunkBytes - 1)
	end := (a.bounds.End() + gpu.ChunkBytes - 1) &^ (gpu.ChunkBytes - 1)
	return exported{
		ordinal: d.ordinal, memory: memory, chunks: gpu.Range{Address: first, Bytes: end - first},
		within: a.bounds.Address - first, bytes: a.bounds.Bytes,
	}, err
}

func halves(id ipc.ID) (a, b uint64) {
	return binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
}

func joinHalves(a, b uint64) (id ipc.ID) {
	binary.LittleEndian.PutUint64(id[:8], a)
	binary.LittleEndian.PutUint64(id[8:], b)
	return id
}

// imported is another process's memory.
type imported struct {
	object  *object.Object
	context *context
	token   ipc.Token
	// home is whole chunks, bounds what the other has allocated there.
	home, bounds gpu.Range
	references   uint32
}

// importAt is the memory of another process that an address lies in, nil for none.
func (s *Session) importAt(address uint64) *imported {
	for _, i := range s.imports {
		if i.bounds.Contains(gpu.Range{Address: address, Bytes: 1}) {
			return i
		}
	}
	return nil
}

func (s *Session) ipcOpen(call *Call, in *wire.IpcOpen, out *wire.IpcOpenReply) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	if err := s.unsafe(call); err != nil {
		return err
	}
	token := ipc.Token{Exporter: joinHalves(in.Exporter0, in.Exporter1), Key: joinHalves(in.Key0, in.Key1)}
	if token.Exporter == s.shares.name() {
		return &gpu.Error{Op: "open shared memory", Code: abi.InvalidContext, Detail: "it is this process's own"}
	}
	if done, err := s.openAgain(c, token, out); done {
		return err
	}
	letGo := c.hold(nil)
	return call.Beside(func() error {
		defer letGo()
		g, err := ipc.Fetch(ipc.Memory, token)
		if err != nil {
			return err
		}
		defer g.File.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if done, err := s.openAgain(c, token, out); done {
			return err
		}
		i, err := s.adopt(c, token, &g)
		if err == nil {
			out.Dptr, out.Bytes = i.bounds.Address, i.bounds.Bytes
		}
		return err
	})
}

// openAgain counts one more use of what is open already. One context of a GPU can have it.
func (s *Session) openAgain(c *context, token ipc.Token, out *wire.IpcOpenReply) (done bool, err error) {
	for _, i := range s.imports {
		if i.token != token || i.context.device != c.device {
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

// adopt enters what was granted.
func (s *Session) adopt(c *context, token ipc.Token, g *ipc.Grant) (*imported, error) {
	if c.ending || c.device.context == nil {
		return nil, &gpu.Error{Op: "open shared memory", Code: abi.ContextIsDestroyed}
	}
	memory, err := c.device.sharer()
	if err != nil {
		return nil, err
	}
	if int(g.Ordinal) != c.device.ordinal && !c.device.canReach(int(g.Ordinal)) {
		detail := fmt.Sprintf("it is memory of GPU %d, which GPU %d cannot reach", g.Ordinal, c.device.ordinal)
		return nil, &gpu.Error{Op: "open shared memory", Code: abi.PeerAccessUnsupported, Detail: detail}
	}
	place, err := s.virtual.Admit(c.device.ordinal, g.FileBytes)
	if err != nil {
		return nil, err
	}
	if err := memory.Adopt(place, g.File, int64(g.Offset)); err != nil {
		_ = s.virtual.Free(place) // the first error says more
		return nil, err
	}
	i := &imported{
		context: c, token: token, home: place, references: 1,
		bounds: gpu.Range{Address: place.Address + g.Within, Bytes: g.Bytes},
	}
	i.object = s.objects.Add(&object.Object{ID: i.bounds.Address, Kind: object.KindImported, Owner: c.object, State: i})
	s.imports = append(s.imports, i)
	return i, nil
}

// shares reports whether other processes can have the device's memory at all.
func (d *device) shares() bool {
	return d.info.Attributes[abi.AttrHandleTypePOSIXFileDescriptorSupported] != 0
}

func (d *device) sharer() (gpu.Sharer, error) {
	memory, can := d.context.Memory().(gpu.Sharer)
	if !can || !d.shares() {
		return nil, &gpu.Error{
			Op:     "share memory",
			Code:   abi.NotSupported,
			Detail: fmt.Sprintf("GPU %d, %s, cannot share memory", d.ordinal, d.info.Name),
		}
	}
	return memory, nil
}

// ipcClose waits, the last time, for what was submitted before.
func (s *Session) ipcClose(call *Call, in *wire.IpcClose, out *wire.IpcCloseReply) error {
	i := s.importAt(in.Dptr)
	if i == nil || i.bounds.Address != in.Dptr {
		return invalid("close shared memory", "nothing was opened at that address")
	}
	if i.references--; i.references > 0 {
		return nil
	}
	out.Closed = 1
	return s.behind(call, func() error {
		if i.references == 0 && slices.Contains(s.imports, i) {
			s.destroy(i.object)
		}
		return nil
	})
}

// drop gives the memory up. The other process keeps it.
func (i *imported) drop(s *Session) {
	s.imports = slices.DeleteFunc(s.imports, func(other *imported) bool { return other == i })
	if c := i.context.device.context; c != nil {
		if err := c.Memory().Unmap(i.home); err != nil {
			s.log.Warn("close shared memory", "address", i.home.Address, "error", err)
		}
		s.freed()
	}
	_ = s.virtual.Free(i.home) // it was reserved with it
}

// save notes where the memory is to be had again: its content belongs to the session that has
// exported it.
func (i *imported) save(k *saving) saved.State {
	if !ipc.Alive(i.token.Exporter) {
		k.fail(&gpu.Error{
			Op: "save session", Code: abi.NotSupported,
			Detail: fmt.Sprintf(
				"the memory at %#x is shared by a program that has ended: close it first",
				i.bounds.Address,
			),
		})
	}
	return &saved.Import{Token: i.token, Home: i.home, Bytes: i.bounds.Bytes, References: i.references}
}

// restoreImported makes what stands for the memory; rejoin brings the memory itself.
func (s *Session) restoreImported(r *restoring, o *object.Object, in *saved.Import) (*imported, error) {
	c, err := ownerOf[*context](o)
	if err != nil {
		return nil, err
	}
	i := &imported{
		object: o, context: c, token: in.Token, home: in.Home, references: in.References,
		bounds: gpu.Range{Address: o.ID, Bytes: in.Bytes},
	}
	if !in.Home.Contains(i.bounds) || in.References == 0 {
		return nil, damaged("it is no memory of another process")
	}
	s.imports = append(s.imports, i)
	return i, nil
}

// reopenMemory opens the memory of other sessions again.
func (s *Session) reopenMemory(ctx gocontext.Context) error {
	for _, i := range s.imports {
		if err := i.rejoin(ctx); err != nil {
			return fmt.Errorf("memory at %#x of another program: %w", i.bounds.Address, err)
		}
	}
	for o := range s.objects.Records() {
		if b, is := o.State.(*block); is && b.foreign() {
			if err := b.rejoin(ctx, s); err != nil {
				return fmt.Errorf("%v of another program: %w", o.Handle(), err)
			}
		}
	}
	return nil
}

// resume answers under the name from before.
func (x *shares) resume(name ipc.ID) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.serve(name)
}

func (i *imported) rejoin(ctx gocontext.Context) error {
	return adoptAgain(ctx, i.context.device, i.token, i.home, func(g *ipc.Grant) bool {
		return i.home.Address+g.Within == i.bounds.Address && g.Bytes == i.bounds.Bytes
	})
}

// adoptAgain has memory of another session where it was, once that session is back; same says
// whether it is what it was.
func adoptAgain(ctx gocontext.Context, d *device, token ipc.Token, home gpu.Range, same func(*ipc.Grant) bool) error {
	memory, err := d.sharer()
	if err != nil {
		return err
	}
	g, err := ipc.Await(ctx, ipc.Memory, token)
	if err != nil {
		return err
	}
	defer g.File.Close()
	if g.FileBytes != home.Bytes || !same(&g) {
		return errors.New("it is another one than it was")
	}
	return memory.Adopt(home, g.File, int64(g.Offset))
}
