package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/joblog"
	"github.com/phos-gpu/phos/daemon/worker/load"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// maxObjects bounds the size of the saved session, modules included.
const maxObjects = 1 << 30

// failureTime is how long a worker that could not restore its session waits for phosd to fetch the
// error.
const failureTime = 30 * time.Second

// exitTime is how long a worker may take to exit after its lifeline was closed.
const exitTime = 2 * time.Second

// workerRestore is the restore of a session from an image.
type workerRestore struct {
	worker *Worker
	log    joblog.Late
	state  restoreState
	loader atomic.Pointer[load.Loader]
	attach chan attachment

	// packs are the names of the packs.
	packs  []string
	reader *contents.Reader
	tree   *image.Tree
	about  about
	active *activeSession
}

// restore runs a worker that restores a session, until the session ends.
func (w *Worker) restore(open Open) error {
	r := newWorkerRestore(w)
	go r.watchLifeline(w.files.first)
	if err := w.serveControl(); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	packs, err := named(w.files.packs)
	if err == nil {
		err = w.openBackend(open)
	}
	if err == nil {
		err = r.run(packs)
	}
	if !r.state.isAttached() && err != nil {
		err = r.damage(err)
		r.state.fail(err)
		r.awaitReported()
	}
	return err
}

func newWorkerRestore(w *Worker) *workerRestore {
	r := &workerRestore{
		worker: w,
		log:    joblog.NewLate(w.phosdLog(0).Handler()),
		state:  newRestoreState(),
		attach: make(chan attachment),
	}
	w.restoring, w.log = r, slog.New(r.log)
	return r
}

// run prepares the session, waits for Attach, and serves the program until the session ends.
func (r *workerRestore) run(packs []*os.File) error {
	w := r.worker
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-w.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := r.prepare(ctx, packs); err != nil {
		return err
	}
	defer markDead(r.active.link.file)
	r.state.setReady()
	w.log.Info("session restored", "backend", w.config.Gpus)
	go r.prefetch(ctx)
	select {
	case a := <-r.attach:
		err := r.commit(a)
		a.answer <- err
		if err != nil {
			return err
		}
		return w.run(r.active)
	case <-w.over:
		w.log.Info("session ended before its program was attached", "why", w.why)
		return nil
	}
}

// watchLifeline ends a worker without a program when phosd exits.
func (r *workerRestore) watchLifeline(line *os.File) {
	defer line.Close()
	_, _ = line.Read(make([]byte, 1)) // nothing is ever sent
	if !r.state.isAttached() {
		r.worker.end("phosd exited or cancelled the restore")
		// The worker may be in a long operation and hold much memory.
		time.AfterFunc(exitTime, func() { os.Exit(1) })
	}
}

// awaitReported waits until phosd has fetched the error.
func (r *workerRestore) awaitReported() {
	select {
	case <-r.state.reported:
	case <-r.worker.over:
	case <-time.After(failureTime):
	}
	stopServer(r.worker.server)
}

// stopServer stops the server and gives requests in flight a second to finish.
func stopServer(server *grpc.Server) {
	done := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
		server.Stop()
	}
}

// prepare restores the session up to the point where the program can be attached.
func (r *workerRestore) prepare(ctx context.Context, packs []*os.File) error {
	w := r.worker
	if err := r.openTree(packs); err != nil {
		return err
	}
	file, err := r.openFile()
	if err != nil {
		return err
	}
	live := newLink(file, processMemory{}, r.about.CopyByShim)
	live.borrow = r.worker.borrow
	if live.arena, err = r.openArena(file.Header()); err != nil {
		return err
	}
	loader := load.New(r.reader, r.tree)
	loader.Lost = func(err error) { file.SetDamage(r.damage(err).Error() + "; calls that use the lost memory fail") }
	r.loader.Store(loader)
	made, err := r.openSession(live, loader)
	if err != nil {
		return err
	}
	if err := r.fillArena(ctx, loader, live.arena, made); err != nil {
		return err
	}
	loader.Complete()
	if w.config.Restore.Eager {
		if err := loader.Eager(ctx); err != nil {
			return err
		}
	}
	r.active = w.activate(live, made, cookie{r.about.CookieAddress, r.about.Cookie})
	r.seed(loader)
	w.session.Store(made)
	return nil
}

// damage adds to the error of a damaged image what its user can do. How the backend came to read
// lost memory does not matter then.
func (r *workerRestore) damage(err error) error {
	if len(r.packs) == 0 {
		return err
	}
	var lost *load.LostError
	if errors.As(err, &lost) {
		err = lost
	}
	// A pack is in a directory of the image.
	return contents.ExplainDamage(filepath.Dir(filepath.Dir(r.packs[0])), err)
}

// named reopens inherited packs as files that have the names of their paths.
func named(files []*os.File) ([]*os.File, error) {
	packs := make([]*os.File, len(files))
	for i, file := range files {
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("pack %d: %w", i, err)
		}
		path, err := proc.PathOf(fd)
		if err != nil {
			return nil, fmt.Errorf("pack %d: %w", i, err)
		}
		packs[i] = os.NewFile(uintptr(fd), path)
		_ = file.Close()
	}
	return packs, nil
}

// openTree opens the tree with the session's GPU half in the packs.
func (r *workerRestore) openTree(packs []*os.File) error {
	name, err := image.ParseHash(r.worker.config.Restore.Tree)
	if err != nil {
		return fmt.Errorf("%w: tree: %w", errImage, err)
	}
	for _, pack := range packs {
		r.packs = append(r.packs, pack.Name())
	}
	if r.reader, err = contents.NewReader(packs); err != nil {
		return err
	}
	if r.tree, err = r.reader.Tree(name); err != nil {
		return err
	}
	self, err := r.readEntry(workerEntry, maxAbout)
	if err != nil {
		return err
	}
	r.about, err = decodeAbout(self)
	return err
}

// An entry may be longer than what is stored for it, because of zeros and compression. An entry
// that grows by more is an attempt to exhaust memory.
const (
	maxGrowth      = 256
	minGrowthBytes = 64 << 20
)

// readEntry reads a whole file of the tree.
func (r *workerRestore) readEntry(name string, limitBytes uint64) ([]byte, error) {
	for _, entry := range r.tree.Entries {
		if entry.Name != name || entry.Kind != image.File {
			continue
		}
		if entry.Bytes > limitBytes {
			return nil, fmt.Errorf("%w: entry %q has %d bytes, of at most %d", errImage, name, entry.Bytes, limitBytes)
		}
		if stored := r.reader.StoredBytes(entry); entry.Bytes > stored*maxGrowth+minGrowthBytes {
			return nil, fmt.Errorf(
				"%w: entry %q has %d bytes, but only %d are stored",
				errImage,
				name,
				entry.Bytes,
				stored,
			)
		}
		if entry.Bytes <= minGrowthBytes {
			content := make([]byte, entry.Bytes)
			return content, r.reader.ReadFile(entry, content)
		}
		// ReadAll allocates in proportion to what is really stored.
		content, err := io.ReadAll(io.NewSectionReader(r.reader.Open(entry), 0, int64(entry.Bytes)))
		if err != nil {
			return nil, fmt.Errorf("read entry %q: %w", name, err)
		}
		return content, nil
	}
	return nil, fmt.Errorf("%w: image has no entry %q", errImage, name)
}

// openFile opens the new session file and fills it with the saved content.
func (r *workerRestore) openFile() (*wire.File, error) {
	saved, err := r.readEntry(sessionEntry, wire.SessionBytes)
	if err != nil {
		return nil, err
	}
	file, err := wire.Open(r.worker.config.SessionPath)
	if err != nil {
		return nil, err
	}
	return file, file.Restore(saved, r.worker.config.Session)
}

// openArena maps the new arena at the address of the old one.
func (r *workerRestore) openArena(header wire.Header) (*wire.Arena, error) {
	bytes := r.worker.config.ArenaBytes
	if header.ArenaBytes != bytes {
		return nil, fmt.Errorf("%w: arena has %d bytes, want %d", errImage, header.ArenaBytes, bytes)
	}
	if header.ArenaBase < lowestArena || header.ArenaBase > highestArena-bytes {
		return nil, fmt.Errorf("%w: arena address %#x is out of range", errImage, header.ArenaBase)
	}
	arena, err := wire.OpenArena(r.worker.config.ArenaPath)
	if err != nil {
		return nil, err
	}
	return arena, arena.Place(header.ArenaBase)
}

func (r *workerRestore) openSession(live *link, loader *load.Loader) (*session.Session, error) {
	objects, err := r.readEntry(objectsEntry, maxObjects)
	if err != nil {
		return nil, err
	}
	if r.worker.visible = r.worker.config.Restore.Visible; r.worker.visible == nil {
		r.worker.visible = view.Place(r.about.Visible, len(r.worker.backend.Devices()))
	}
	return session.Restore(session.Options{
		Backend: r.worker.backend, Visible: r.worker.visible, Program: live, Arena: r.worker.counted(live.arena), Answers: live,
		Backing: func(ordinal int, memory gpu.Memory) heap.Backing {
			return loader.Backing(gpuEntry(ordinal), memory)
		},
		Share: live.share, Sharing: ipc.Dir(r.worker.config.SharingDir), Getenv: r.worker.getenv, Logger: r.worker.log,
	}, objects)
}

// fillArena loads the arena, which program and worker access without a fault handler.
func (r *workerRestore) fillArena(
	ctx context.Context, loader *load.Loader, arena *wire.Arena, made *session.Session,
) error {
	spans := joinRanges(made.ArenaRanges())
	err := loader.Fill(ctx, arenaEntry, func(address, bytes uint64) ([]byte, error) {
		want := gpu.Range{Address: address, Bytes: bytes}
		for _, span := range spans {
			if span.Contains(want) {
				at := address - arena.Address()
				return arena.Bytes()[at : at+bytes], nil
			}
		}
		return nil, fmt.Errorf("%w: nothing is allocated at %#x", errImage, address)
	})
	if errors.Is(err, load.ErrNoEntry) && len(spans) == 0 {
		return nil
	}
	return err
}

// joinRanges merges adjacent ranges; they must be sorted by address.
func joinRanges(ranges []gpu.Range) (joined []gpu.Range) {
	for _, r := range ranges {
		if last := len(joined) - 1; last >= 0 && joined[last].End() == r.Address {
			joined[last].Bytes += r.Bytes
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// seed tells the next checkpoint which chunks the image already contains.
func (r *workerRestore) seed(loader *load.Loader) {
	for _, source := range sources(r.active.session, r.active.arena) {
		r.active.capture.Seed(source, loader.Chunks(source.Name))
	}
}

// prefetch loads all memory that was not touched yet.
func (r *workerRestore) prefetch(ctx context.Context) {
	err := r.loader.Load().Prefetch(ctx)
	if err == nil {
		r.state.setLoaded()
		return
	}
	err = r.damage(err)
	if ctx.Err() == nil {
		r.worker.log.Error("load memory failed; kernels that touch the missing memory fail", "error", err)
	}
	r.state.fail(err)
}
