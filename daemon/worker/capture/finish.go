package capture

import (
	"context"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// waiting is a piece that was copied but not written.
type waiting struct {
	memory *memory
	piece  *cutPiece
}

// Finish writes what Cut has copied and returns an entry for each memory, by name. The program may
// run in the meantime. The next checkpoint may begin after Finish has returned.
func (s *Snapshot) Finish(ctx context.Context) ([]image.Entry, error) {
	defer s.Abort()
	work, bytes := s.waiting()
	s.mu.Lock()
	s.done, s.total = 0, bytes
	s.mu.Unlock()
	err := pool.Each(ctx, s.background(), work, func(w waiting) error {
		if err := s.finishOne(ctx, w); err != nil {
			return wrap("write", w.memory, err)
		}
		s.progress("write", w.piece)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.entries(), nil
}

// waiting lists the pieces to write. Those on devices come first, as the program may need that
// memory.
func (s *Snapshot) waiting() (work []waiting, bytes uint64) {
	var here []waiting
	for _, m := range s.memories {
		for i := range m.pieces {
			piece := &m.pieces[i]
			switch {
			case piece.shadow != nil:
				work = append(work, waiting{m.memory, piece})
			case piece.guard != nil || piece.copied != nil:
				here = append(here, waiting{m.memory, piece})
			default:
				continue
			}
			bytes += piece.Bytes
		}
	}
	return append(work, here...), bytes
}

// finishOne writes one copied piece.
func (s *Snapshot) finishOne(ctx context.Context, w waiting) error {
	if w.piece.guard != nil {
		w.piece.guard.Save(w.piece.Address)
		if w.piece.copied == nil { // it was written, and has been charged, or could not be
			return s.failure()
		}
	}
	if err := s.limit.Wait(ctx, int(w.piece.Bytes)); err != nil {
		return err
	}
	copied := w.piece.copied
	if shadow := w.piece.shadow; shadow != nil {
		copied = s.staging.take()
		defer s.staging.give(copied)
		if err := shadow.Read(copied.bytes); err != nil {
			return err
		}
		if err := shadow.Release(); err != nil {
			return err
		}
	}
	if err := s.put(ctx, w.memory, w.piece.Range, copied.bytes[:w.piece.Bytes], nil); err != nil {
		return err
	}
	known, _ := w.memory.find(w.piece.Range)
	w.piece.hash = known.hash
	if w.piece.guard != nil { // the program may need it for what it writes next
		w.piece.copied = nil
		s.buffers.give(copied)
	}
	return nil
}

// entries returns the saved entries, with the pieces of each memory in the order of their first
// use.
func (s *Snapshot) entries() []image.Entry {
	var list []image.Entry
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.memories {
		entry := image.Entry{
			Kind:   image.Memory,
			Name:   m.memory.source.Name,
			Chunks: make([]image.Chunk, 0, len(m.pieces)),
		}
		for _, piece := range s.byUse(m) {
			entry.Bytes += piece.Bytes
			if !piece.hash.IsZero() && !s.written[piece.hash] {
				s.stats.SharedBytes += piece.Bytes
			}
			entry.Chunks = append(
				entry.Chunks,
				image.Chunk{Address: piece.Address, Bytes: uint32(piece.Bytes), Hash: piece.hash},
			)
		}
		s.stats.MemoryBytes += entry.Bytes
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b image.Entry) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// byUse orders the pieces of a memory by their first use.
func (s *Snapshot) byUse(m *cutMemory) []cutPiece {
	toucher, ok := m.memory.source.Memory.(gpu.AccessRecorder)
	if !ok || !s.touchers[toucher] {
		return m.pieces
	}
	touches := toucher.Accesses()
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
