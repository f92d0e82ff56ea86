package capture

import (
	"context"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/ckpt/crew"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// Cut takes the state of all memories at this instant: nothing may write them until it returns. Afterwards the program
// may go on. It may be called again, when the first instant turned out not to be one for others that are saved with it.
func (s *Snapshot) Cut(ctx context.Context) error {
	s.recordTouches(false)
	s.giveBack()
	memories, err := s.capture.present()
	if err != nil {
		return err
	}
	var work []*taking
	for _, m := range memories {
		missing, err := s.missing(ctx, m, crew.All())
		if err != nil {
			return err
		}
		// Nothing runs, so that all marks may be cleared at once.
		for _, run := range runs(missing) {
			one := batch{m, []gpu.Range{run}}
			one.clear()
		}
		taken := newCutMemory(m)
		s.memories = append(s.memories, taken)
		work = append(work, taken.takings(missing)...)
	}
	return s.take(ctx, work)
}

// giveBack drops what an earlier cut has put aside. Its names were forgotten when it was taken.
func (s *Snapshot) giveBack() {
	for _, m := range s.memories {
		for i := range m.pieces {
			if shadow := m.pieces[i].shadow; shadow != nil {
				s.buffers.give(shadow)
			}
		}
	}
	s.memories = nil
}

// taking is a piece that is taken at the cut.
type taking struct {
	memory *memory
	piece  *cutPiece
}

func newCutMemory(m *memory) *cutMemory {
	c := &cutMemory{memory: m, pieces: make([]cutPiece, len(m.pieces))}
	for i, r := range m.pieces {
		known, _ := m.lookUp(r)
		c.pieces[i] = cutPiece{Range: r, hash: known.hash}
	}
	return c
}

// takings lists what of a memory must be taken.
func (c *cutMemory) takings(missing []gpu.Range) (work []*taking) {
	for i := range c.pieces {
		piece := &c.pieces[i]
		if len(missing) > 0 && missing[0] == piece.Range {
			missing = missing[1:]
			piece.hash = image.Hash{}
			work = append(work, &taking{c.memory, piece})
		}
	}
	return work
}

// take copies pieces aside as long as there are buffers, and puts the others.
func (s *Snapshot) take(ctx context.Context, work []*taking) error {
	var bytes, done uint64
	for _, t := range work {
		bytes += t.piece.Bytes
	}
	s.mu.Lock()
	s.stats.CutBytes = bytes
	s.mu.Unlock()
	return crew.Each(ctx, crew.All(), work, func(t *taking) error {
		if err := s.takeOne(ctx, t); err != nil {
			return wrap("cut", t.memory, err)
		}
		s.mu.Lock()
		done += t.piece.Bytes
		now := done
		s.mu.Unlock()
		s.options.Progress("cut", now, bytes)
		return nil
	})
}

func (s *Snapshot) takeOne(ctx context.Context, t *taking) error {
	r := t.piece.Range
	if shadow := s.shadow(); shadow != nil {
		if err := readInto(t.memory.source.Memory, r, shadow.bytes); err != nil {
			s.buffers.give(shadow)
			return err
		}
		t.piece.shadow = shadow
		return nil
	}
	// Only a memory that cannot be viewed needs this, and then a chunk or so for each processor is beyond the budget.
	spare := func() []byte { return make([]byte, image.ChunkBytes) }
	return inPlace(t.memory.source.Memory, r, spare, func(bytes []byte) error {
		err := s.put(ctx, t.memory, r, bytes, &s.stats.DirectBytes)
		if known, found := t.memory.lookUp(r); found {
			t.piece.hash = known.hash
		}
		return err
	})
}

func (s *Snapshot) shadow() *buffer {
	if s.options.Direct {
		return nil
	}
	return s.buffers.take()
}

// Finish writes what Cut has put aside and returns an entry for each memory, by name. The program may run meanwhile, and the
// next checkpoint begin when it has returned.
func (s *Snapshot) Finish(ctx context.Context) ([]image.Entry, error) {
	defer s.Abort()
	var work []*taking
	var bytes, done uint64
	for _, m := range s.memories {
		for i := range m.pieces {
			if m.pieces[i].shadow != nil {
				work = append(work, &taking{m.memory, &m.pieces[i]})
				bytes += m.pieces[i].Bytes
			}
		}
	}
	err := crew.Each(ctx, s.background(), work, func(t *taking) error {
		if err := s.finishOne(ctx, t); err != nil {
			return wrap("write", t.memory, err)
		}
		s.mu.Lock()
		done += t.piece.Bytes
		now := done
		s.mu.Unlock()
		s.options.Progress("write", now, bytes)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.entries(), nil
}

func (s *Snapshot) finishOne(ctx context.Context, t *taking) error {
	if !s.hurry.Load() {
		if err := s.limit.Wait(ctx, int(t.piece.Bytes)); err != nil {
			return err
		}
	}
	if err := s.put(ctx, t.memory, t.piece.Range, t.piece.shadow.bytes[:t.piece.Bytes], nil); err != nil {
		return err
	}
	known, _ := t.memory.lookUp(t.piece.Range)
	t.piece.hash = known.hash
	return nil
}

// entries names what was saved, the pieces of each memory in the order in which they were used first.
func (s *Snapshot) entries() []image.Entry {
	var list []image.Entry
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.memories {
		entry := image.Entry{Kind: image.Memory, Name: m.memory.source.Name, Chunks: make([]image.Chunk, 0, len(m.pieces))}
		for _, piece := range s.byUse(m) {
			entry.Bytes += piece.Bytes
			if !piece.hash.IsZero() && !s.written[piece.hash] {
				s.stats.SharedBytes += piece.Bytes
			}
			entry.Chunks = append(entry.Chunks, image.Chunk{Address: piece.Address, Bytes: uint32(piece.Bytes), Hash: piece.hash})
		}
		s.stats.MemoryBytes += entry.Bytes
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b image.Entry) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// byUse orders the pieces of a memory.
func (s *Snapshot) byUse(m *cutMemory) []cutPiece {
	toucher, offers := m.memory.source.Memory.(gpu.Toucher)
	if !offers || !s.touchers[toucher] {
		return m.pieces
	}
	touches := toucher.Touches()
	place := make(map[uint64]int, len(touches))
	for i, address := range touches {
		place[address] = i + 1
	}
	last := len(touches) + 1
	rank := func(p cutPiece) int {
		if at := place[p.Address]; at > 0 {
			return at
		}
		return last
	}
	ordered := slices.Clone(m.pieces)
	slices.SortStableFunc(ordered, func(a, b cutPiece) int { return rank(a) - rank(b) })
	return ordered
}
