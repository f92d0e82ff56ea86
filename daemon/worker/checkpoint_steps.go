package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/daemon/worker/capture"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
)

// Names of the entries in the tree of a session's GPU half, beside those of its memory.
const (
	sessionEntry = "session" // the session file
	objectsEntry = "objects" // session.Session.Save
	workerEntry  = "worker"  // about
	arenaEntry   = "arena"
)

// phase is how far a checkpoint has come.
type phase int

const (
	fresh    phase = iota
	copied         // Begin is done
	quiesced       // the gate is closed and the streams are drained
	cut            // the state is captured; the program may still be frozen
)

// workerCheckpoint is one checkpoint of a session.
type workerCheckpoint struct {
	worker *Worker
	events *events
	phase  phase
	// resumed is set after Resume: phosd says that the program runs again.
	resumed bool

	active   *activeSession
	gate     *gate
	files    []*os.File
	writer   *contents.Writer
	limit    *contents.Limit   // nil without one
	snapshot *capture.Snapshot // nil in a checkpoint without memory
	kinds    stateKinds

	// content is what the last cut saved besides memory.
	content struct {
		session, objects []byte
		counts           map[string]uint64
		arenaBytes       uint64
		gpuBytes         []uint64
		code             []*api.LoadedCode
	}
}

// begin takes the packs and copies memory while the program runs.
func (s *workerCheckpoint) begin(ctx context.Context, in *api.SaveBegin) error {
	if s.phase != fresh || s.files != nil {
		return fmt.Errorf("%w: already begun", errOrder)
	}
	// Take the files even if the checkpoint is then refused as busy. Otherwise they would stay in the
	// token store, which holds only a few.
	if err := s.openPacks(in); err != nil {
		return err
	}
	if s.active = s.worker.active.Load(); s.active == nil {
		return busyError{errors.New("the program is still starting")}
	}
	s.gate = s.active.gate()
	s.kinds = in.GetKinds()
	if s.kinds.objects() {
		if err := s.active.session.Unsavable(); err != nil {
			return fmt.Errorf("%w: %w", api.ErrInvalid, err)
		}
	}
	if s.kinds.memory() {
		var err error
		s.snapshot, err = s.active.capture.Begin(s.writer, capture.Options{
			BudgetBytes: in.GetBudgetBytes(), Limit: s.limit,
			Direct: in.GetStopTheWorld(), Progress: s.events.progress,
		})
		if err != nil {
			return err
		}
		if !in.GetStopTheWorld() {
			if err := s.snapshot.Precopy(ctx); err != nil {
				return err
			}
		}
	}
	s.phase = copied
	return nil
}

// openPacks takes the handed-off packs: the first is written, the others already have chunks.
func (s *workerCheckpoint) openPacks(in *api.SaveBegin) (err error) {
	caller, err := api.CallerOf(s.events.stream.Context())
	if err != nil {
		return err
	}
	if s.files, err = s.worker.tokens.Take(in.GetFiles(), caller); err != nil {
		return err
	}
	if err := s.openLimit(in, caller); err != nil {
		return err
	}
	known, err := contents.NewReader(s.files[1:])
	if err != nil {
		return err
	}
	s.writer = contents.NewWriter(s.files[0], known, contents.WriterOptions{Compress: in.GetCompress()})
	return nil
}

// openLimit opens the limit that this checkpoint shares with phosd. A phosd of an older version
// hands none off.
func (s *workerCheckpoint) openLimit(in *api.SaveBegin, caller api.Caller) error {
	if in.GetBandwidthBytes() == 0 {
		return nil
	}
	if len(in.GetLimit()) == 0 {
		s.limit = contents.NewLimit(in.GetBandwidthBytes())
		return nil
	}
	files, err := s.worker.tokens.Take(in.GetLimit(), caller)
	if err != nil {
		return err
	}
	defer fdpass.Close(files)
	s.limit, err = contents.OpenLimit(files[0], in.GetBandwidthBytes())
	return err
}

// quiesce closes the gate and returns when all calls and streams are drained.
func (s *workerCheckpoint) quiesce(ctx context.Context, in *api.SaveQuiesce) error {
	again := in.GetYield() || in.GetStay()
	if s.phase == fresh || s.phase == quiesced && !again || s.phase == cut && !s.resumed {
		return fmt.Errorf("%w: quiesce", errOrder)
	}
	if in.GetYield() {
		s.gate.yield(ctx)
	}
	s.phase = copied // also after a cut, if another program of the same checkpoint was busy
	limited, cancel := context.WithTimeout(ctx, milliseconds(in.GetDeadlineMilliseconds()))
	defer cancel()
	s.events.progress("drain", 0, 0)
	if err := s.gate.quiesce(limited, in.GetStay()); err != nil {
		return err
	}
	s.phase, s.resumed = quiesced, false
	return nil
}

// cut captures the state of the frozen program.
func (s *workerCheckpoint) cut(ctx context.Context, deadline time.Duration) error {
	if s.phase != quiesced {
		return fmt.Errorf("%w: cut", errOrder)
	}
	// A stuck disk may block this goroutine. Once the checkpoint is cancelled it must not block the
	// program too.
	defer context.AfterFunc(ctx, s.giveUp)()
	limited, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := s.gate.drainFrozen(limited); err != nil {
		return errors.Join(err, s.resume())
	}
	memory := make(chan error, 1)
	go func() {
		if s.snapshot == nil {
			memory <- nil
			return
		}
		memory <- s.snapshot.Cut(ctx)
	}()
	err := s.saveRest()
	if err = errors.Join(err, <-memory); err != nil {
		if errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrCapturing) {
			err = busyError{err}
		}
		if s.snapshot != nil {
			s.snapshot.Discard()
		}
		return errors.Join(err, s.resume())
	}
	s.phase = cut
	return nil
}

// saveRest saves the session and its objects: all except memory.
func (s *workerCheckpoint) saveRest() (err error) {
	active := s.active
	s.content.counts, s.content.arenaBytes = s.kinds.filter(active.session.Counts()), 0
	if s.kinds.memory() {
		for _, r := range active.session.ArenaRanges() {
			s.content.arenaBytes += r.Bytes
		}
		s.content.gpuBytes = make([]uint64, active.session.GPUs())
		for _, m := range active.session.Memories() {
			for _, r := range m.Mapped {
				s.content.gpuBytes[m.Ordinal] += r.Bytes
			}
		}
	}
	if !s.kinds.objects() {
		return nil
	}
	if s.content.objects, err = active.session.Save(); err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	s.content.code = s.content.code[:0]
	for _, c := range active.session.Code() {
		s.content.code = append(
			s.content.code,
			&api.LoadedCode{Name: c.Name, Targets: c.Targets, Kernels: c.Kernels, Modules: uint32(c.Modules)},
		)
	}
	s.content.session = active.link.file.Save()
	return wire.CheckSaved(s.content.session)
}

// release opens the gate, at any phase. It may be open already.
func (s *workerCheckpoint) release() {
	s.gate.thawed()
	s.gate.open()
}

// giveUp lets the program go on although this goroutine may be blocked by a disk.
func (s *workerCheckpoint) giveUp() {
	s.release()
	if s.snapshot != nil {
		s.snapshot.GiveUp()
	}
}

// resume lets the program go on. What is saved stays saved, until the next cut.
func (s *workerCheckpoint) resume() error {
	if s.gate == nil {
		return fmt.Errorf("%w: resume", errOrder)
	}
	s.release()
	s.resumed = true
	if s.phase == quiesced {
		s.phase = copied
	}
	return nil
}

// finish writes what the cut captured into the pack, and returns the image's tree.
func (s *workerCheckpoint) finish(ctx context.Context) (*api.SaveResult, error) {
	if s.phase != cut || s.writer == nil {
		return nil, fmt.Errorf("%w: finish", errOrder)
	}
	defer context.AfterFunc(ctx, s.giveUp)()
	tree := &image.Tree{}
	var stats capture.Stats
	if s.snapshot != nil {
		if !s.resumed {
			s.snapshot.Hurry()
		}
		entries, err := s.snapshot.Finish(ctx)
		if err != nil {
			return nil, err
		}
		tree.Entries, stats = entries, s.snapshot.Stats()
	}
	if err := s.putRest(ctx, tree); err != nil {
		return nil, err
	}
	slices.SortFunc(tree.Entries, func(a, b image.Entry) int { return strings.Compare(a.Name, b.Name) })
	name, err := s.writer.PutTree(ctx, tree)
	if err != nil {
		return nil, err
	}
	if err := s.writer.Close(); err != nil {
		return nil, err
	}
	written := s.writer.Stats()
	s.writer = nil
	return &api.SaveResult{
		Tree: name[:], MemoryBytes: stats.MemoryBytes, WrittenBytes: written.StoredBytes, SharedBytes: stats.SharedBytes,
		CutBytes: stats.CutBytes, Objects: s.content.counts, ArenaBytes: s.content.arenaBytes,
		GpuBytes: s.content.gpuBytes, Code: s.content.code, Gpus: s.worker.machineGPUs(len(s.content.gpuBytes)),
	}, nil
}

// machineGPUs returns the machine's ordinals of the first GPUs that the program sees.
func (w *Worker) machineGPUs(count int) (ordinals []uint32) {
	for i := range count {
		ordinals = append(ordinals, uint32(view.Ordinal(w.visible, i)))
	}
	return ordinals
}

// putRest writes the entries other than memory.
func (s *workerCheckpoint) putRest(ctx context.Context, tree *image.Tree) error {
	self, err := json.Marshal(s.worker.about(s.active))
	if err != nil {
		return fmt.Errorf("describe worker: %w", err)
	}
	for _, part := range []struct {
		name    string
		content []byte
	}{{sessionEntry, s.content.session}, {objectsEntry, s.content.objects}, {workerEntry, self}} {
		if part.name != workerEntry && !s.kinds.objects() {
			continue
		}
		entry, err := s.writer.PutSparse(ctx, part.name, bytes.NewReader(part.content))
		if err != nil {
			return err
		}
		tree.Entries = append(tree.Entries, entry)
	}
	return nil
}

// close ends a checkpoint, finished or not, at any phase: the program goes on, and nothing of the
// checkpoint is left in this process. Only phosd keeps or removes what was written.
func (s *workerCheckpoint) close() {
	if s.gate != nil {
		s.release()
	}
	if s.snapshot != nil {
		s.snapshot.Abort()
	}
	if s.snapshot != nil && !s.snapshot.IsSettled() {
		go func() {
			s.snapshot.Settle()
			fdpass.Close(s.files)
		}()
		return
	}
	fdpass.Close(s.files) // phosd syncs them when it commits the image
}

// stateKinds are the kinds of state that a checkpoint saves; empty means all. An image with only
// some kinds is for inspection and cannot be restored.
type stateKinds []string

// memoryKinds are the kinds that are stored as device memory and arena. Variables lie among the
// allocations, so each of the two saves both.
var memoryKinds = []string{"cuda_memory", "cuda_var"}

// countNames maps each kind to its names in session.Counts. Devices and variables are not objects
// of a session.
var countNames = map[string][]string{
	"cuda_context":  {"context"},
	"cuda_module":   {"module", "library"},
	"cuda_function": {"function", "kernel"},
	"cuda_memory":   {"memory", "pinned memory", "memory pool"},
	"cuda_stream":   {"stream"},
	"cuda_event":    {"event"},
}

// memory reports whether the content of memory is saved.
func (c stateKinds) memory() bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(kind string) bool { return slices.Contains(memoryKinds, kind) })
}

// objects reports whether the session and its objects are saved.
func (c stateKinds) objects() bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(kind string) bool { return !slices.Contains(memoryKinds, kind) })
}

// filter returns the counts of the chosen kinds.
func (c stateKinds) filter(all map[string]uint64) map[string]uint64 {
	if len(c) == 0 {
		return all
	}
	some := map[string]uint64{}
	for _, kind := range c {
		for _, name := range countNames[kind] {
			if n, ok := all[name]; ok {
				some[name] = n
			}
		}
	}
	return some
}
