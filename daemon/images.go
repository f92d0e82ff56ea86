package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/preflight"
	"github.com/phos-gpu/phos/daemon/rights"
	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/daemon/statedir"
)

// openState makes the state directory ready.
func (d *Daemon) openState() (err error) {
	settings := d.options.Config
	d.state, err = statedir.Open(statedir.Options{
		Path: settings.StateDir, MemoryPath: d.dir.Work(), MemoryBytes: uint64(settings.Checkpoint.MemoryBudget),
	})
	return err
}

func rightsOf(actor rpc.Actor) rights.Rights {
	return rights.Rights{UID: actor.UID, GID: actor.GID, Groups: actor.Groups}
}

// takeFiles are those that a request names. The first must be what the caller may have opened himself: it was.
func (d *Daemon) takeFiles(token []byte, actor rpc.Actor) ([]*os.File, error) {
	files, err := d.desk.Take(token, actor)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: it names no file", rpc.ErrInvalid)
	}
	return files, nil
}

// checkDirectory refuses a descriptor that is no open directory. One that was opened only as a path shows no rights.
func checkDirectory(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if !info.IsDir() || flags&unix.O_PATH != 0 {
		return fmt.Errorf("%w: %s is no directory that was opened for reading", rpc.ErrInvalid, file.Name())
	}
	return nil
}

// key is this machine's.
func (d *Daemon) key() image.Key { return image.NewKey(d.state.Key()) }

// seal vouches for an image.
func (d *Daemon) seal(m *image.Manifest) ([]byte, error) { return image.Sign(m, d.key()) }

// opened is an image directory with one generation of it.
type opened struct {
	dir    *store.Dir
	source ckpt.Source
}

func (o *opened) close() {
	for _, pack := range o.source.Packs {
		_ = pack.Close() // only read
	}
	o.source.Packs = nil
	if o.dir != nil {
		o.dir.Close()
		o.dir = nil
	}
}

// openImage opens a generation for somebody who may restore it: one of this machine's seal or of an imported key's, and for
// his own programs; root may take any.
func (d *Daemon) openImage(directory *os.File, generation uint64, actor rpc.Actor) (_ *opened, err error) {
	if err := checkDirectory(directory); err != nil {
		return nil, err
	}
	o := &opened{}
	o.source.Release = o.close
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if o.dir, err = store.Open(directory, store.As(rightsOf(actor).Do)); err != nil {
		return nil, err
	}
	signed, err := o.dir.Manifest(generation)
	if err != nil {
		return nil, err
	}
	if o.source.Manifest, err = d.unseal(signed, actor); err != nil {
		return nil, fmt.Errorf("%s: %w", o.dir.ManifestPath(generation), err)
	}
	if o.source.Packs, err = o.dir.Packs(); err != nil {
		return nil, err
	}
	o.source.Reader, err = contents.NewReader(o.source.Packs)
	return o, err
}

// unseal reads a manifest that the actor may restore from.
func (d *Daemon) unseal(signed []byte, actor rpc.Actor) (*image.Manifest, error) {
	imported, err := d.state.Imported()
	if err != nil {
		return nil, err
	}
	keys := []image.Key{d.key()}
	for _, each := range imported {
		keys = append(keys, image.NewKey(each))
	}
	m, seal, err := image.OpenSigned(signed, keys)
	if actor.Root() && errors.Is(err, image.ErrUnknownKey) {
		m, _, err = image.Inspect(signed) // root vouches for it
		return m, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the seal of the image: %w; an image of another machine needs root, or its key (pos_cli help image key)",
			rpc.ErrNotPermitted, err)
	}
	if !actor.May(seal.OwnerUID) {
		return nil, fmt.Errorf("%w: the image is of a program of another user", rpc.ErrNotPermitted)
	}
	return m, nil
}

// workWithin is ckpt's way to private directories, which take at most half of a budget of memory together.
func (d *Daemon) workWithin(budgetBytes uint64) func(bytes uint64, uid, gid uint32) (ckpt.Work, error) {
	left := budgetBytes / 2
	return func(bytes uint64, uid, gid uint32) (ckpt.Work, error) {
		made, err := d.state.NewWork(bytes, left, uid, gid)
		if err != nil {
			return nil, err
		}
		work := privateWork{made, bytes}
		left -= work.MemoryBytes()
		return work, nil
	}
}

type privateWork struct {
	*statedir.Work
	bytes uint64
}

// Descriptor is the open directory.
func (w privateWork) Descriptor() *os.File { return w.File }

// MemoryBytes is what was asked for, when it is memory.
func (w privateWork) MemoryBytes() uint64 {
	if w.InMemory {
		return w.bytes
	}
	return 0
}

// CheckImage says whether an image can be restored here.
func (s *service) CheckImage(ctx context.Context, request *rpc.CheckImageRequest) (*rpc.CheckImageReply, error) {
	actor, err := rpc.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := s.daemon.takeFiles(request.GetFiles(), actor)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	image, err := s.daemon.openImage(files[0], request.GetGeneration(), actor)
	if err != nil {
		// What keeps the image from being opened is an answer too.
		return &rpc.CheckImageReply{Obstacles: []*rpc.Obstacle{{Subject: "image", Reason: err.Error()}}}, nil
	}
	defer image.close()
	reply := &rpc.CheckImageReply{}
	obstacles := s.daemon.machine.Obstacles(ctx, image.source.Manifest, request.GetNewPids(), actor.Place())
	needed, err := image.source.Needed(s.daemon.options.CPU)
	if err != nil {
		obstacles = append(obstacles, ckpt.Obstacle{Subject: "image", Reason: err.Error()})
	}
	for _, o := range append(obstacles, preflight.Foreign(needed, image.source.Manifest, actor.Place())...) {
		reply.Obstacles = append(reply.Obstacles, &rpc.Obstacle{Subject: o.Subject, Reason: o.Reason, Remedy: o.Remedy, Harmless: o.Harmless})
	}
	return reply, nil
}

// Keys gives, takes and forgets keys.
func (s *service) Keys(ctx context.Context, request *rpc.KeysRequest) (*rpc.KeysReply, error) {
	actor, err := rpc.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := actor.RequireRoot("see and change keys"); err != nil {
		return nil, err
	}
	state, reply := s.daemon.state, &rpc.KeysReply{}
	switch act := request.GetAct().(type) {
	case *rpc.KeysRequest_Export:
		key := state.Key()
		reply.Key = key[:]
	case *rpc.KeysRequest_Import:
		err = state.Import(act.Import.GetName(), act.Import.GetKey())
		s.daemon.log.Info("key imported", "name", act.Import.GetName(), "error", err)
	case *rpc.KeysRequest_Remove:
		err = state.Forget(act.Remove)
		s.daemon.log.Info("key forgotten", "name", act.Remove, "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrInvalid, err)
	}
	reply.Names, err = state.Names()
	return reply, err
}

// library keeps a copy of a library that is no longer where it was.
func (d *Daemon) library(saved image.SavedFile, content io.Reader) (*os.File, error) {
	return d.state.Library(saved.Hash, content)
}
