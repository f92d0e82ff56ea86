package capture

import (
	"context"

	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// comparePieces is how many pieces are compared at a time during the cut, while the dirty ones of
// the previous batch are copied. It is large enough to make the cost of a request to the device
// small.
const comparePieces = 2048

// Cut completes the snapshot as of now: it copies only what is dirty or was not copied yet.
// Nothing may write to the memories until it returns; afterwards the program may run. It may be
// called again if the first cut was not consistent with other parts of the checkpoint.
func (s *Snapshot) Cut(ctx context.Context) error {
	s.recordTouches(false)
	if err := s.releaseCopies(); err != nil {
		return err
	}
	memories, err := s.capture.present()
	if err != nil {
		return err
	}
	for _, m := range memories {
		s.memories = append(s.memories, newCutMemory(m))
	}
	ctx, stop := context.WithCancel(ctx)
	found := make(chan finding, 1)
	var failed error
	go func() {
		defer close(found)
		failed = s.find(ctx, found)
	}()
	err = s.take(ctx, found)
	stop()
	for range found { // until find has ended
	}
	s.precopied = false // what is dirty at another cut is that only since this one
	if err == nil {
		err = failed
	}
	return err
}

// releaseCopies releases the copies of an earlier cut. Their hashes were already forgotten.
func (s *Snapshot) releaseCopies() error {
	s.Discard()
	for _, m := range s.memories {
		for i := range m.pieces {
			piece := &m.pieces[i]
			if piece.copied != nil {
				s.buffers.give(piece.copied)
			}
			if piece.shadow != nil {
				if err := piece.shadow.Release(); err != nil {
					return wrap("drop an earlier copy", m.memory, err)
				}
			}
		}
	}
	s.memories = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.CutBytes, s.stats.DeviceBytes, s.stats.GuardedBytes, s.done, s.total = 0, 0, 0, 0, 0
	return nil
}

// finding is dirty pieces of a memory.
type finding struct {
	memory *memory
	pieces []*cutPiece
}

func newCutMemory(m *memory) *cutMemory {
	c := &cutMemory{memory: m, pieces: make([]cutPiece, len(m.pieces))}
	for i, r := range m.pieces {
		c.pieces[i] = cutPiece{Range: r}
	}
	return c
}

// find finds the dirty pieces, memory by memory, and fills in the hashes of the others. If digests
// must be compared, it works in batches.
func (s *Snapshot) find(ctx context.Context, found chan<- finding) error {
	for _, c := range s.memories {
		step := len(c.pieces)
		if c.memory.compares() {
			step = comparePieces
		}
		for at := 0; at < len(c.pieces); at += step {
			end := min(at+step, len(c.pieces))
			uncopied, err := s.uncopied(ctx, c.memory, c.memory.pieces[at:end], pool.All())
			if err != nil {
				return err
			}
			if s.precopied {
				c.memory.learnRewritten(uncopied)
			}
			// Nothing runs, so all dirty bits can be cleared at once.
			for _, run := range runs(uncopied) {
				one := batch{c.memory, []gpu.Range{run}}
				one.clearDirty()
			}
			select {
			case found <- finding{c.memory, c.dirty(c.pieces[at:end], uncopied)}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// dirty returns the dirty ones of some pieces, and fills in the hashes of the others.
func (c *cutMemory) dirty(pieces []cutPiece, uncopied []gpu.Range) (work []*cutPiece) {
	for i := range pieces {
		piece := &pieces[i]
		if len(uncopied) > 0 && uncopied[0] == piece.Range {
			uncopied = uncopied[1:]
			work = append(work, piece)
			continue
		}
		known, _ := c.memory.find(piece.Range)
		piece.hash = known.hash
	}
	return work
}
