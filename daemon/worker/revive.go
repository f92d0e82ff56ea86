package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/joblog"
	"github.com/phos-gpu/phos/daemon/worker/load"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/hijack/wire"
)

// maxObjects bounds the saved session, modules included.
const maxObjects = 1 << 30

// goodbyeTime is how long a worker that could not make its session waits for somebody to ask why.
const goodbyeTime = 30 * time.Second

// lifeTime is how long a worker that nobody wants any more may take to end.
const lifeTime = 2 * time.Second

// revival is a session on its way back from an image.
type revival struct {
	worker *Worker
	log    joblog.Late
	state  state
	loader atomic.Pointer[load.Loader]
	attach chan attachment

	reader *contents.Reader
	tree   *image.Tree
	about  about
	joined *joined
}

// revive is the life of a worker that makes a session again.
func (w *Worker) revive(open Open) error {
	r := newRevival(w)
	go r.followLife(w.files.first)
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
		r.state.fail(err)
		r.awaitGoodbye()
	}
	return err
}

func newRevival(w *Worker) *revival {
	r := &revival{
		worker: w,
		log:    joblog.NewLate(w.phosdLog(0).Handler()),
		state:  newState(),
		attach: make(chan attachment),
	}
	w.revival, w.log = r, slog.New(r.log)
	return r
}

// run is the session from its making to its end.
func (r *revival) run(packs []*os.File) error {
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
	if err := r.bringBack(ctx, packs); err != nil {
		return err
	}
	defer markDead(r.joined.link.file)
	r.state.ready()
	w.log.Info("session is there again", "backend", w.config.Gpus)
	go r.loadRest(ctx)
	select {
	case a := <-r.attach:
		err := r.take(a)
		a.answer <- err
		if err != nil {
			return err
		}
		return w.run(r.joined)
	case <-w.over:
		w.log.Info("session ends before its program came", "why", w.why)
		return nil
	}
}

// followLife ends a worker without a program when phosd ends.
func (r *revival) followLife(line *os.File) {
	defer line.Close()
	_, _ = line.Read(make([]byte, 1)) // nothing is ever sent
	if !r.state.isAttached() {
		r.worker.end("phosd has ended, or wants no program here")
		// It may be in the middle of something that takes long, with all the memory that it has already.
		time.AfterFunc(lifeTime, func() { os.Exit(1) })
	}
}

// awaitGoodbye waits until phosd has heard what went wrong.
func (r *revival) awaitGoodbye() {
	select {
	case <-r.state.heard:
	case <-r.worker.over:
	case <-time.After(goodbyeTime):
	}
	stopGently(r.worker.server)
}

// stopGently lets requests finish whose answers are under way.
func stopGently(server *grpc.Server) {
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

// bringBack makes the session.
func (r *revival) bringBack(ctx context.Context, packs []*os.File) error {
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
	r.loader.Store(loader)
	made, err := r.openSession(live, loader)
	if err != nil {
		return err
	}
	if err := r.fillArena(ctx, loader, live.arena, made); err != nil {
		return err
	}
	loader.Settle()
	if w.config.Restore.Eager {
		if err := loader.Eager(ctx); err != nil {
			return err
		}
	}
	r.joined = w.join(live, made, cookie{r.about.CookieAddress, r.about.Cookie})
	r.seed(loader)
	w.session.Store(made)
	return nil
}

// named gives packs the names of their files.
func named(files []*os.File) ([]*os.File, error) {
	packs := make([]*os.File, len(files))
	for i, file := range files {
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("pack %d: %w", i, err)
		}
		path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil {
			return nil, fmt.Errorf("pack %d: %w", i, err)
		}
		packs[i] = os.NewFile(uintptr(fd), path)
		_ = file.Close()
	}
	return packs, nil
}

// openTree finds the session's GPU half in the packs.
func (r *revival) openTree(packs []*os.File) error {
	name, err := image.ParseHash(r.worker.config.Restore.Tree)
	if err != nil {
		return fmt.Errorf("%w: tree: %w", errImage, err)
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

// What was saved may be longer than what is stored for it, by zeros and by compression, but so much
// only when somebody wants it to take memory.
const (
	mostGrowth = 256
	freeBytes  = 64 << 20
)

// readEntry reads a whole file of the tree.
func (r *revival) readEntry(name string, limitBytes uint64) ([]byte, error) {
	for _, entry := range r.tree.Entries {
		if entry.Name != name || entry.Kind != image.File {
			continue
		}
		if entry.Bytes > limitBytes {
			return nil, fmt.Errorf("%w: entry %q has %d bytes, of at most %d", errImage, name, entry.Bytes, limitBytes)
		}
		if stored := r.reader.StoredBytes(entry); entry.Bytes > stored*mostGrowth+freeBytes {
			return nil, fmt.Errorf(
				"%w: entry %q has %d bytes, of %d that are stored",
				errImage,
				name,
				entry.Bytes,
				stored,
			)
		}
		if entry.Bytes <= freeBytes {
			content := make([]byte, entry.Bytes)
			return content, r.reader.ReadFile(entry, content)
		}
		// It grows with what was really there.
		content, err := io.ReadAll(io.NewSectionReader(r.reader.Open(entry), 0, int64(entry.Bytes)))
		if err != nil {
			return nil, fmt.Errorf("read entry %q: %w", name, err)
		}
		return content, nil
	}
	return nil, fmt.Errorf("%w: it has no entry %q", errImage, name)
}

// openFile fills the new session file.
func (r *revival) openFile() (*wire.File, error) {
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

// openArena maps the new arena where the program has had its own, and will have it again.
func (r *revival) openArena(header wire.Header) (*wire.Arena, error) {
	bytes := r.worker.config.ArenaBytes
	if header.ArenaBytes != bytes {
		return nil, fmt.Errorf("%w: its arena has %d bytes, not %d", errImage, header.ArenaBytes, bytes)
	}
	if header.ArenaBase < lowestArena || header.ArenaBase > highestArena-bytes {
		return nil, fmt.Errorf("%w: its arena lies at %#x", errImage, header.ArenaBase)
	}
	arena, err := wire.OpenArena(r.worker.config.ArenaPath)
	if err != nil {
		return nil, err
	}
	return arena, arena.Place(header.ArenaBase)
}

func (r *revival) openSession(live *link, loader *load.Loader) (*session.Session, error) {
	objects, err := r.readEntry(objectsEntry, maxObjects)
	if err != nil {
		return nil, err
	}
	return session.Restore(session.Options{
		Backend: r.worker.backend, Program: live, Arena: live.arena, Answers: live,
		Backing: func(ordinal int, memory gpu.Memory) heap.Backing { return loader.Backing(gpuEntry(ordinal), memory) },
		Share:   live.share, Getenv: r.worker.getenv, Logger: r.worker.log,
	}, objects)
}

// fillArena brings back what program and worker touch without asking.
func (r *revival) fillArena(ctx context.Context, loader *load.Loader, arena *wire.Arena, made *session.Session) error {
	spans := joinRanges(made.ArenaRanges())
	err := loader.Fill(ctx, arenaEntry, func(address, bytes uint64) ([]byte, error) {
		want := gpu.Range{Address: address, Bytes: bytes}
		for _, span := range spans {
			if span.Contains(want) {
				at := address - arena.Address()
				return arena.Bytes()[at : at+bytes], nil
			}
		}
		return nil, fmt.Errorf("%w: nothing is allocated there", errImage)
	})
	if errors.Is(err, load.ErrNoEntry) && len(spans) == 0 {
		return nil
	}
	return err
}

// joinRanges joins ranges that touch; they are sorted by address.
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

// seed tells the next checkpoint what the image knows already.
func (r *revival) seed(loader *load.Loader) {
	for _, source := range sources(r.joined.session, r.joined.arena) {
		r.joined.capture.Seed(source, loader.Chunks(source.Name))
	}
}

// loadRest brings back what nobody has touched yet.
func (r *revival) loadRest(ctx context.Context) {
	err := r.loader.Load().Prefetch(ctx)
	if err == nil {
		r.state.done()
		return
	}
	if ctx.Err() == nil {
		r.worker.log.Error("memory could not be brought back; who touches it gets an error", "error", err)
	}
	r.state.fail(err)
}
