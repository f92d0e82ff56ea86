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
	"github.com/phos-gpu/phos/daemon/worker/capture"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Names of the entries in the tree of a session's GPU half, beside those of its memory.
const (
	sessionEntry = "session" // the session file
	objectsEntry = "objects" // session.Session.Save
	workerEntry  = "worker"  // about
	arenaEntry   = "arena"
)

// place is how far a checkpoint is.
type place int

const (
	fresh  place = iota
	copied       // Begin was done
	shut         // nothing new comes in
	cut          // everything is saved, the program stands still
)

// saving is one checkpoint of a session.
type saving struct {
	worker *Worker
	events *events
	at     place
	// resumed: the program goes on, for all that phosd says.
	resumed bool

	joined   *joined
	gate     *gate
	files    []*os.File
	writer   *contents.Writer
	snapshot *capture.Snapshot // nil in a checkpoint without memory
	kinds    chosen

	// content is what the last cut has saved besides memory.
	content struct {
		session, objects []byte
		counts           map[string]uint64
		arenaBytes       uint64
		gpuBytes         []uint64
		code             []*api.LoadedCode
	}
}

// begin copies while the program runs.
func (s *saving) begin(ctx context.Context, in *api.SaveBegin) error {
	if s.at != fresh || s.files != nil {
		return fmt.Errorf("%w: begun already", errOrder)
	}
	// Also of a checkpoint that cannot be yet: nobody else takes its files, and there is room for few
	// that wait.
	if err := s.openPacks(in); err != nil {
		return err
	}
	if s.joined = s.worker.joined.Load(); s.joined == nil {
		return busy{errors.New("the program is just starting")}
	}
	s.gate = s.joined.gate()
	s.kinds = in.GetKinds()
	if s.kinds.memory() {
		var err error
		s.snapshot, err = s.joined.capture.Begin(s.writer, capture.Options{
			BudgetBytes: in.GetBudgetBytes(), BandwidthBytes: in.GetBandwidthBytes(),
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
	s.at = copied
	return nil
}

func (s *saving) openPacks(in *api.SaveBegin) (err error) {
	actor, err := api.ActorOf(s.events.stream.Context())
	if err != nil {
		return err
	}
	if s.files, err = s.worker.desk.Take(in.GetFiles(), actor); err != nil {
		return err
	}
	known, err := contents.NewReader(s.files[1:])
	if err != nil {
		return err
	}
	s.writer = contents.NewWriter(s.files[0], known, contents.WriterOptions{Compress: in.GetCompress()})
	return nil
}

// quiesce lets nothing new in, and returns when everything is done.
func (s *saving) quiesce(ctx context.Context, deadline time.Duration) error {
	if s.at == fresh || s.at == shut || s.at == cut && !s.resumed {
		return fmt.Errorf("%w: quiesce", errOrder)
	}
	s.at = copied // after a cut too: another program of the same checkpoint was busy
	limited, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	s.events.progress("drain", 0, 0)
	if err := s.gate.shut(limited); err != nil {
		return err
	}
	s.at, s.resumed = shut, false
	return nil
}

// cut saves what there is at this instant.
func (s *saving) cut(ctx context.Context, deadline time.Duration) error {
	if s.at != shut {
		return fmt.Errorf("%w: cut", errOrder)
	}
	// A disk that does not answer holds up who writes to it, and not the program once the checkpoint
	// is not wanted any more.
	defer context.AfterFunc(ctx, s.letGo)()
	limited, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := s.gate.settleFrozen(limited); err != nil {
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
			err = busy{err}
		}
		return errors.Join(err, s.resume())
	}
	s.at = cut
	return nil
}

// saveRest saves what is no memory.
func (s *saving) saveRest() (err error) {
	j := s.joined
	s.content.counts, s.content.arenaBytes = s.kinds.of(j.session.Counts()), 0
	if s.kinds.memory() {
		for _, r := range j.session.ArenaRanges() {
			s.content.arenaBytes += r.Bytes
		}
		s.content.gpuBytes = make([]uint64, j.session.GPUs())
		for _, m := range j.session.Memories() {
			for _, r := range m.Mapped {
				s.content.gpuBytes[m.Ordinal] += r.Bytes
			}
		}
	}
	if !s.kinds.objects() {
		return nil
	}
	if s.content.objects, err = j.session.Save(); err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	s.content.code = s.content.code[:0]
	for _, c := range j.session.Code() {
		s.content.code = append(
			s.content.code,
			&api.LoadedCode{Name: c.Name, Targets: c.Targets, Kernels: c.Kernels, Modules: uint32(c.Modules)},
		)
	}
	s.content.session = j.link.file.Save()
	return wire.CheckSaved(s.content.session)
}

// letGo opens the gate, whatever the checkpoint is at: nothing will become of it.
func (s *saving) letGo() {
	s.gate.thawed()
	s.gate.open()
}

// resume lets the program go on. What is saved stays saved, until the next cut.
func (s *saving) resume() error {
	if s.gate == nil {
		return fmt.Errorf("%w: resume", errOrder)
	}
	s.gate.thawed()
	s.gate.open()
	s.resumed = true
	if s.at == shut {
		s.at = copied
	}
	return nil
}

// finish writes what the cut has put aside.
func (s *saving) finish(ctx context.Context) (*api.SaveResult, error) {
	if s.at != cut || s.writer == nil {
		return nil, fmt.Errorf("%w: finish", errOrder)
	}
	defer context.AfterFunc(ctx, s.letGo)()
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
		GpuBytes: s.content.gpuBytes, Code: s.content.code,
	}, nil
}

// putRest writes what is no memory.
func (s *saving) putRest(ctx context.Context, tree *image.Tree) error {
	self, err := json.Marshal(s.worker.about(s.joined))
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

// close takes everything back that is not finished.
func (s *saving) close() {
	if s.gate != nil {
		s.gate.thawed()
		s.gate.open()
	}
	if s.snapshot != nil {
		s.snapshot.Abort()
	}
	for _, file := range s.files {
		_ = file.Close() // who commits the image syncs it
	}
}

// chosen are the kinds of state that a checkpoint saves; none: all. What is saved of only some is
// there to be looked at, and no session is made of it again.
type chosen []string

// memoryKinds lie in device memory and in the arena. Variables stand among allocations, so either
// brings both.
var memoryKinds = []string{"cuda_memory", "cuda_var"}

// counted are the names that session.Counts has for what belongs to a kind. Devices and variables
// are no objects of a session.
var counted = map[string][]string{
	"cuda_context":  {"context"},
	"cuda_module":   {"module", "library"},
	"cuda_function": {"function", "kernel"},
	"cuda_memory":   {"memory", "pinned memory", "memory pool"},
	"cuda_stream":   {"stream"},
	"cuda_event":    {"event"},
}

// memory reports whether the content of memory is saved.
func (c chosen) memory() bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(kind string) bool { return slices.Contains(memoryKinds, kind) })
}

// objects reports whether the session and its objects are saved.
func (c chosen) objects() bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(kind string) bool { return !slices.Contains(memoryKinds, kind) })
}

// of leaves the counts of what is saved.
func (c chosen) of(all map[string]uint64) map[string]uint64 {
	if len(c) == 0 {
		return all
	}
	some := map[string]uint64{}
	for _, kind := range c {
		for _, name := range counted[kind] {
			if n, there := all[name]; there {
				some[name] = n
			}
		}
	}
	return some
}
