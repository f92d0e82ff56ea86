package capture

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// DefaultBudgetBytes is the default limit for the memory of copies.
const DefaultBudgetBytes = 1 << 30

// Options say how a snapshot is taken.
type Options struct {
	// BudgetBytes limits the memory of copies; at least one chunk is used. 0 means
	// DefaultBudgetBytes. What does not fit at the cut is written while the program is paused.
	BudgetBytes uint64
	// Limit limits the bytes per second that are copied before the cut, and written after it; nil
	// means no limit. What the cut writes only counts.
	Limit *contents.Limit
	// Workers is the number of goroutines that copy while the program runs. 0 means one for every
	// two processors, but enough to overlap copying from a device, digesting and writing.
	Workers int
	// Direct writes everything at the cut instead of copying it: for a program that is stopped
	// without a Precopy.
	Direct bool
	// Progress is called from time to time, by several goroutines. phase is "copy", "cut" or
	// "write".
	Progress func(phase string, doneBytes, totalBytes uint64)
}

// Stats describe the cost of a snapshot.
type Stats struct {
	// MemoryBytes is the size of all memories at the cut.
	MemoryBytes uint64
	// Passes is the number of passes of Precopy; CopiedBytes is what they stored.
	Passes      int
	CopiedBytes uint64
	// CutBytes were dirty at the cut. Of these, DeviceBytes were copied within the device's memory,
	// and DirectBytes were written at the cut, because the budget was used up. GuardedBytes are saved
	// after it, or when the program writes them.
	CutBytes, DeviceBytes, DirectBytes, GuardedBytes uint64
	// WrittenBytes are contents that the target did not have; SharedBytes, known after Finish, are
	// those that it had.
	WrittenBytes, SharedBytes uint64
	// BufferBytes is the largest amount of memory used for copies.
	BufferBytes uint64
}

// Snapshot is one checkpoint. Its methods must not be called concurrently, except Stats, Hurry
// and GiveUp.
type Snapshot struct {
	capture *Capture
	target  Target
	options Options
	buffers *buffers
	staging *buffers // one for each goroutine that writes memory it cannot view
	limit   *contents.Limit
	hurry   atomic.Bool
	ended   bool
	// precopied is set from the Precopy to the first cut.
	precopied bool
	shadows   map[*memory]gpu.Shadows // copies within devices, where supported

	// givenUp ends with GiveUp and Abort.
	givenUp context.Context
	giveUp  context.CancelCauseFunc
	// putting is how many contents are being stored beside a program's store. Some may still be after
	// Abort, while a disk hangs.
	putting atomic.Int64

	guarding sync.Mutex       // guards what follows
	guarded  []gpu.WriteGuard // memories that may have guarded pieces

	mu    sync.Mutex
	stats Stats
	// failed is why a piece could not be saved when it was written.
	failed error
	// done and total are bytes of the current phase.
	done, total uint64
	written     map[image.Hash]bool         // contents that were new to the target
	touchers    map[gpu.AccessRecorder]bool // those that record touches
	memories    []*cutMemory
}

// cutMemory is a memory at the cut.
type cutMemory struct {
	memory *memory
	pieces []cutPiece // in the order of first use; unused ones come last
}

// cutPiece is a piece at the cut: its hash, or its copy (here or on the device) if that is not
// written yet, or the guard of memory that still is as it was.
type cutPiece struct {
	gpu.Range
	hash   image.Hash
	copied *buffer
	shadow gpu.Shadow
	// guard is set for a piece that is copied only when the program writes it.
	guard gpu.WriteGuard
}

func newSnapshot(c *Capture, target Target, options Options) (*Snapshot, error) {
	if options.BudgetBytes == 0 {
		options.BudgetBytes = DefaultBudgetBytes
	}
	if options.Workers <= 0 {
		options.Workers = pool.Background().Count
		if pinner(c.sources()) != nil {
			options.Workers = max(options.Workers, takers().Count) // reading from a device is mostly waiting
		}
	}
	if options.Progress == nil {
		options.Progress = func(string, uint64, uint64) {}
	}
	buffers, err := newBuffers(options.BudgetBytes)
	if err != nil {
		return nil, err
	}
	options.Workers = min(options.Workers, buffers.limit)
	staging, err := newBuffers(uint64(max(options.Workers, takers().Count)) * image.ChunkBytes)
	if err != nil {
		buffers.close()
		return nil, err
	}
	buffers.pin = pinner(c.sources())
	staging.pin = buffers.pin
	givenUp, giveUp := context.WithCancelCause(context.Background())
	return &Snapshot{
		givenUp: givenUp, giveUp: giveUp,
		capture: c, target: target, options: options, buffers: buffers, staging: staging,
		shadows: map[*memory]gpu.Shadows{},
		limit:   options.Limit, written: map[image.Hash]bool{},
	}, nil
}

// pinner returns the function that pins buffers: that of the first device that supports it, because
// pinned memory works for all devices.
func pinner(sources []Source) func([]byte) (func() error, error) {
	for _, source := range sources {
		if p, ok := source.Memory.(gpu.Pinner); ok {
			return p.Pin
		}
	}
	return nil
}

// Hurry tells the snapshot that the program will not run again: what is left may use all
// processors.
func (s *Snapshot) Hurry() { s.hurry.Store(true) }

// Stats may be called at any time.
func (s *Snapshot) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.BufferBytes = s.buffers.peakBytes()
	return stats
}

// Abort ends the snapshot without a result. It may be called when no other method runs, and more
// than once. Stored contents become garbage, but the recorded hashes remain valid.
func (s *Snapshot) Abort() {
	if s.ended {
		return
	}
	s.ended = true
	s.recordTouches(false)
	s.GiveUp()
	s.buffers.close()
	s.staging.close()
	for _, shadows := range s.shadows {
		_ = shadows.Close() // fails only if the device has failed, and then nothing of it is used again
	}
	s.capture.finish()
}

// background returns the workers for copies beside the program; all cores in a hurry.
func (s *Snapshot) background() pool.Workers {
	if s.hurry.Load() {
		return pool.All()
	}
	return pool.Workers{Count: s.options.Workers, Background: true}
}

// count records that a content was stored.
func (s *Snapshot) count(r gpu.Range, hash image.Hash, written bool, into *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written {
		s.written[hash] = true
		s.stats.WrittenBytes += r.Bytes
	}
	if into != nil {
		*into += r.Bytes
	}
}

// add adds the bytes of pieces to some counters.
func (s *Snapshot) add(pieces []*cutPiece, figures ...*uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, figure := range figures {
		for _, piece := range pieces {
			*figure += piece.Bytes
		}
	}
}

// progress reports that pieces are done.
func (s *Snapshot) progress(phase string, pieces ...*cutPiece) {
	s.add(pieces, &s.done)
	s.mu.Lock()
	done, total := s.done, s.total
	s.mu.Unlock()
	s.options.Progress(phase, done, total)
}

// recordTouches makes the memories that support it record the order in which chunks are used.
func (s *Snapshot) recordTouches(on bool) {
	if !on {
		for t := range s.touchers {
			t.RecordAccesses(false)
		}
		return
	}
	s.touchers = map[gpu.AccessRecorder]bool{}
	for _, source := range s.capture.sources() {
		if t, ok := source.Memory.(gpu.AccessRecorder); ok {
			t.RecordAccesses(true)
			s.touchers[t] = true
		}
	}
}

// wrap adds the name of the memory to an error, if there is one.
func wrap(what string, m *memory, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, m.source.Name, err)
}
