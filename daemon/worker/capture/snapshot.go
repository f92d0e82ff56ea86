package capture

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// DefaultBudgetBytes bounds the memory of copies where nothing else is asked for.
const DefaultBudgetBytes = 1 << 30

// Options are how a snapshot is taken.
type Options struct {
	// BudgetBytes bounds the memory of copies, one chunk at least; 0 means DefaultBudgetBytes. What
	// does not fit at the cut is written while the program stands still.
	BudgetBytes uint64
	// BandwidthBytes bounds how much is copied a second while the program runs; 0: no bound.
	BandwidthBytes uint64
	// Workers copy while the program runs; 0 means one for every two processors, and enough for
	// copying from a device, digesting and writing to overlap.
	Workers int
	// Direct writes everything at the cut and puts nothing aside: for a program that is stopped
	// without a Precopy.
	Direct bool
	// Progress is called now and then, by several goroutines, with what is being done ("copy", "cut",
	// "write").
	Progress func(phase string, doneBytes, totalBytes uint64)
}

// Stats are what a snapshot took.
type Stats struct {
	// MemoryBytes is the content of all memories at the cut.
	MemoryBytes uint64
	// Passes is how often Precopy went over the memory; CopiedBytes what it has put.
	Passes      int
	CopiedBytes uint64
	// CutBytes were found to have changed at the cut; DeviceBytes of them were put aside in the
	// device's own memory, DirectBytes had to be written there and then, beyond the budget.
	CutBytes, DeviceBytes, DirectBytes uint64
	// WrittenBytes are contents that the target did not have; SharedBytes, known after Finish, those
	// of the image that it had.
	WrittenBytes, SharedBytes uint64
	// BufferBytes is the most memory that copies had.
	BufferBytes uint64
}

// Snapshot is one checkpoint. Its methods are called one after the other.
type Snapshot struct {
	capture *Capture
	target  Target
	options Options
	buffers *buffers
	staging *buffers // one for each goroutine that writes what it cannot view
	limit   *contents.Limit
	hurry   atomic.Bool
	ended   bool
	shadows map[*memory]gpu.Shadows // by whose device they are in; those that offer it

	mu    sync.Mutex
	stats Stats
	// done and total are bytes of what is under way.
	done, total uint64
	written     map[image.Hash]bool  // contents that were new to the target
	touchers    map[gpu.Toucher]bool // those that record
	memories    []*cutMemory
}

// cutMemory is a memory as it was at the cut.
type cutMemory struct {
	memory *memory
	pieces []cutPiece // in the order in which they were used first; what was not used comes last
}

// cutPiece is a piece of it: its name, or else the copy that has none yet, here or on the device.
type cutPiece struct {
	gpu.Range
	hash   image.Hash
	copied *buffer
	shadow gpu.Shadow
}

func newSnapshot(c *Capture, target Target, options Options) (*Snapshot, error) {
	if options.BudgetBytes == 0 {
		options.BudgetBytes = DefaultBudgetBytes
	}
	if options.Workers <= 0 {
		options.Workers = pool.Some().Count
		if pinner(c.sources()) != nil {
			options.Workers = max(options.Workers, takers().Count) // who reads from a device waits for it most of the time
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
	return &Snapshot{
		capture: c, target: target, options: options, buffers: buffers, staging: staging, shadows: map[*memory]gpu.Shadows{},
		limit: contents.NewLimit(options.BandwidthBytes), written: map[image.Hash]bool{},
	}, nil
}

// pinner returns how buffers are pinned: for the first device that wants it, as what one has pinned
// serves all.
func pinner(sources []Source) func([]byte) (func() error, error) {
	for _, source := range sources {
		if p, offers := source.Memory.(gpu.Pinner); offers {
			return p.Pin
		}
	}
	return nil
}

// Hurry says that the program will not run again: what is left may take all processors.
func (s *Snapshot) Hurry() { s.hurry.Store(true) }

// Stats may be asked for at any time.
func (s *Snapshot) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.BufferBytes = s.buffers.peakBytes()
	return stats
}

// Abort ends the snapshot without a result. It may be called at any time when no other method runs,
// and more than once. What was put is of use to nobody, but the names that were learnt stay good.
func (s *Snapshot) Abort() {
	if s.ended {
		return
	}
	s.ended = true
	s.recordTouches(false)
	s.buffers.close()
	s.staging.close()
	for _, shadows := range s.shadows {
		_ = shadows.Close() // it fails when the device does, and then nothing of it is of use any more
	}
	s.capture.ended()
}

func (s *Snapshot) background() pool.Crew {
	if s.hurry.Load() {
		return pool.All()
	}
	return pool.Crew{Count: s.options.Workers, Quiet: true}
}

// count adds a content that was put.
func (s *Snapshot) count(r gpu.Range, name image.Hash, written bool, into *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written {
		s.written[name] = true
		s.stats.WrittenBytes += r.Bytes
	}
	if into != nil {
		*into += r.Bytes
	}
}

// add adds the bytes of pieces to some figures.
func (s *Snapshot) add(pieces []*cutPiece, figures ...*uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, figure := range figures {
		for _, piece := range pieces {
			*figure += piece.Bytes
		}
	}
}

// progress tells that pieces are done.
func (s *Snapshot) progress(phase string, pieces ...*cutPiece) {
	s.add(pieces, &s.done)
	s.mu.Lock()
	done, total := s.done, s.total
	s.mu.Unlock()
	s.options.Progress(phase, done, total)
}

// recordTouches lets the memories that can do so record in which order they are touched.
func (s *Snapshot) recordTouches(on bool) {
	if !on {
		for t := range s.touchers {
			t.RecordTouches(false)
		}
		return
	}
	s.touchers = map[gpu.Toucher]bool{}
	for _, source := range s.capture.sources() {
		if t, offers := source.Memory.(gpu.Toucher); offers {
			t.RecordTouches(true)
			s.touchers[t] = true
		}
	}
}

func wrap(what string, m *memory, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, m.source.Name, err)
}
