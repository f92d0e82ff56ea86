package capture

import (
	"context"

	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// comparePieces is how many pieces are compared at once at the cut, while what changed of those
// before is copied: so many that asking a device costs little beside.
const comparePieces = 2048

// Cut takes the state of all memories at this instant: nothing may write them until it returns.
// Afterwards the program may go on. It may be called again, when the first instant turned out not
// to be one for others that are saved with it.
func (s *Snapshot) Cut(ctx context.Context) error {
	s.recordTouches(false)
	if err := s.giveBack(); err != nil {
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
	for range found { // until nobody looks for more
	}
	if err == nil {
		err = failed
	}
	return err
}

// giveBack drops what an earlier cut has put aside. Its names were forgotten when it was taken.
func (s *Snapshot) giveBack() error {
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
	s.stats.CutBytes, s.stats.DeviceBytes, s.done, s.total = 0, 0, 0, 0
	return nil
}

// finding is pieces of a memory that must be taken.
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

// find looks for what must be taken, memory after memory, and names the rest. Where it compares, it
// does so some pieces at a time.
func (s *Snapshot) find(ctx context.Context, found chan<- finding) error {
	for _, c := range s.memories {
		step := len(c.pieces)
		if c.memory.compares() {
			step = comparePieces
		}
		for at := 0; at < len(c.pieces); at += step {
			end := min(at+step, len(c.pieces))
			missing, err := s.missing(ctx, c.memory, c.memory.pieces[at:end], pool.All())
			if err != nil {
				return err
			}
			// Nothing runs, so that all marks may be cleared at once.
			for _, run := range runs(missing) {
				one := batch{c.memory, []gpu.Range{run}}
				one.clear()
			}
			select {
			case found <- finding{c.memory, c.sort(c.pieces[at:end], missing)}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// sort names pieces that are known and returns those that are missing.
func (c *cutMemory) sort(pieces []cutPiece, missing []gpu.Range) (work []*cutPiece) {
	for i := range pieces {
		piece := &pieces[i]
		if len(missing) > 0 && missing[0] == piece.Range {
			missing = missing[1:]
			work = append(work, piece)
			continue
		}
		known, _ := c.memory.lookUp(piece.Range)
		piece.hash = known.hash
	}
	return work
}
