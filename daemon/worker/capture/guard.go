package capture

import (
	"context"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// guard guards pieces that can be copied when the program writes them, and returns the others.
func (s *Snapshot) guard(ctx context.Context, f finding) finding {
	guard, ok := f.memory.source.Memory.(gpu.WriteGuard)
	if !ok || f.memory.compares() || s.options.Direct || len(f.pieces) == 0 {
		return f
	}
	chunks, at := make([]uint64, len(f.pieces)), make(map[uint64]*cutPiece, len(f.pieces))
	for i, piece := range f.pieces {
		chunks[i] = piece.Address
		at[piece.Address] = piece
		piece.guard = guard
	}
	s.guarded = append(s.guarded, guard)
	// The program may go on after the request has ended: what it writes is still saved.
	ctx = context.WithoutCancel(ctx)
	rest := guard.Guard(chunks, func(address uint64, content []byte) {
		s.saveGuarded(ctx, f.memory, at[address], content)
	})
	left := finding{memory: f.memory}
	for _, address := range rest {
		at[address].guard = nil
		left.pieces = append(left.pieces, at[address])
	}
	guarded := slices.DeleteFunc(slices.Clone(f.pieces), func(piece *cutPiece) bool { return piece.guard == nil })
	s.add(guarded, &s.stats.GuardedBytes)
	s.progress("cut", guarded...)
	return left
}

// saveGuarded saves a piece as it was at the cut: into a buffer, or, if none is left, by writing
// it.
func (s *Snapshot) saveGuarded(ctx context.Context, m *memory, piece *cutPiece, content []byte) {
	if copied := s.takeBuffer(); copied != nil {
		copy(copied.bytes, content)
		piece.copied = copied
		return
	}
	s.limit.Charge(len(content))
	if err := s.put(ctx, m, piece.Range, content, nil); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = wrap("save before it is written", m, err)
		return
	}
	known, _ := m.find(piece.Range)
	piece.hash = known.hash
}

// unguard lets the program write everything.
func (s *Snapshot) unguard() {
	for _, each := range s.guarded {
		each.Unguard()
	}
	s.guarded = nil
}

// failure returns why a piece was not saved when it was written, if there is such a piece.
func (s *Snapshot) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
