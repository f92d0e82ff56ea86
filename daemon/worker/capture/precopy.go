package capture

import (
	"context"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

const (
	// batchPieces is how many pieces are copied after clearing their dirty bits. Clearing makes
	// running kernels translate addresses again, so it should be rare. But what is copied long
	// after the clearing has often been written again.
	batchPieces = 16
	// maxPasses bounds the passes over a program whose dirty memory shrinks slowly.
	maxPasses = 8
	// smallBytes is so little dirty memory that the cut copies it within some milliseconds.
	smallBytes = 8 << 20
)

// Precopy copies memory while the program runs. It repeats passes over the dirty memory until that
// is small or no longer shrinks.
func (s *Snapshot) Precopy(ctx context.Context) error {
	s.recordTouches(true)
	s.precopied = true
	before := ^uint64(0)
	for pass := 0; ; pass++ {
		found, err := s.changes(ctx, pass == 0)
		if err != nil {
			return err
		}
		bytes := found.bytes
		if pass >= maxPasses || bytes <= min(smallBytes, s.options.BudgetBytes/2) || bytes > before/4*3 {
			if err := s.prepare(found.wanted); err != nil {
				return err
			}
			return ctx.Err()
		}
		s.mu.Lock()
		s.stats.Passes++
		s.mu.Unlock()
		if err := s.pass(ctx, found.work, bytes); err != nil {
			return err
		}
		before = bytes
	}
}

// prepare allocates memory for what the cut will probably find, and as much again, as the program
// continues to run. It uses the device's own memory if possible.
func (s *Snapshot) prepare(wanted map[*memory]int) error {
	buffers := 0
	for m, pieces := range wanted {
		pieces = 2*pieces + batchPieces
		aside := 0
		if shadower, ok := m.source.Memory.(gpu.Shadower); ok {
			shadows, room, err := shadower.NewShadows(pieces)
			if err != nil {
				return wrap("prepare to copy", m, err)
			}
			s.shadows[m], aside = shadows, room
		}
		buffers += max(pieces-aside, 0)
	}
	s.buffers.prepare(buffers)
	return nil
}

// batch is pieces of one memory whose dirty bits are cleared together.
type batch struct {
	memory *memory
	pieces []gpu.Range
}

// changed is what must be copied.
type changed struct {
	work   []batch
	wanted map[*memory]int // dirty pieces of every memory
	bytes  uint64
}

// changes lists what must be copied, without what is rewritten each time.
func (s *Snapshot) changes(ctx context.Context, first bool) (*changed, error) {
	memories, err := s.capture.present()
	if err != nil {
		return nil, err
	}
	c := &changed{wanted: map[*memory]int{}}
	for _, m := range memories {
		list, err := s.uncopied(ctx, m, m.pieces, s.background())
		if err != nil {
			return nil, err
		}
		c.wanted[m] = len(list)
		if first {
			m.beginPrecopy()
		}
		if m.guards() {
			var rewritten []gpu.Range
			if rewritten, list = m.split(list); first {
				m.watchRewritten(rewritten)
			}
		}
		c.bytes += total(list)
		for len(list) > 0 {
			n := min(len(list), batchPieces)
			c.work = append(c.work, batch{m, list[:n]})
			list = list[n:]
		}
	}
	return c, nil
}

// uncopied lists the pieces of a memory that are dirty or that the target does not have.
func (s *Snapshot) uncopied(
	ctx context.Context,
	m *memory,
	pieces []gpu.Range,
	workers pool.Workers,
) ([]gpu.Range, error) {
	if err := m.forgetChanged(ctx, pieces, workers); err != nil {
		return nil, err
	}
	var list []gpu.Range
	for _, r := range pieces {
		if c, ok := m.find(r); !ok || !c.hash.IsZero() && !s.target.Has(c.hash) {
			list = append(list, r)
		}
	}
	return list, nil
}

// pass copies all batches once.
func (s *Snapshot) pass(ctx context.Context, work []batch, bytes uint64) error {
	var done uint64
	return pool.Each(ctx, s.background(), work, func(b batch) error {
		b.clearDirty()
		copied := s.buffers.take()
		defer s.buffers.give(copied)
		for _, r := range b.pieces {
			if err := s.limit.Wait(ctx, int(r.Bytes)); err != nil {
				return err
			}
			err := s.copyPiece(ctx, b.memory, r, copied)
			if err != nil && !unmapped(err) {
				return wrap("copy", b.memory, err)
			}
			s.mu.Lock()
			done += r.Bytes
			now := done
			s.mu.Unlock()
			s.options.Progress("copy", now, bytes)
		}
		return nil
	})
}

// clearDirty forgets the hashes of the pieces and then clears their dirty bits. If other pieces in
// between lose their dirty bits, their hashes are forgotten, too.
func (b *batch) clearDirty() {
	for _, r := range b.pieces {
		b.memory.forget(r.Address)
	}
	tracker, marks := b.memory.source.Memory.(gpu.Tracker)
	if !marks {
		return
	}
	first := b.pieces[0].Address
	span := gpu.Range{Address: first, Bytes: b.pieces[len(b.pieces)-1].End() - first}
	cleared := tracker.ClearDirty(span)
	for i := range span.Bytes / gpu.ChunkBytes {
		if bit(cleared, i) {
			b.memory.forget(first + i*gpu.ChunkBytes)
		}
	}
}

// copyPiece stores the current content of a piece and records its hash.
func (s *Snapshot) copyPiece(ctx context.Context, m *memory, r gpu.Range, copied *buffer) error {
	if err := readInto(m.source.Memory, r, copied.bytes); err != nil {
		return err
	}
	m.noteCopied(r)
	return s.put(ctx, m, r, copied.bytes[:r.Bytes], &s.stats.CopiedBytes)
}

// stored is a content that the target has.
type stored struct {
	hash image.Hash
	// written is set if it was new to the target.
	written bool
}

// put stores a copied content and records its hash.
func (s *Snapshot) put(ctx context.Context, m *memory, r gpu.Range, bytes []byte, into *uint64) error {
	hash, written, err := s.target.Put(ctx, bytes)
	if err != nil {
		return err
	}
	s.record(m, r, bytes, stored{hash, written}, into)
	return nil
}

// record records the hash of a stored content.
func (s *Snapshot) record(m *memory, r gpu.Range, bytes []byte, done stored, into *uint64) {
	c := content{hash: done.hash}
	if m.compares() {
		c.digest, c.digested = m.digestOf(bytes), true
	}
	m.learn(r, c)
	s.count(r, done.hash, done.written, into)
}
