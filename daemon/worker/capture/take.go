package capture

import (
	"context"

	"github.com/phos-gpu/phos/ckpt/pool"
)

// takers returns the workers that capture dirty pieces while nothing else runs: at least two, so
// that one copies while another writes.
func takers() pool.Workers { return pool.Workers{Count: max(pool.All().Count, 2)} }

// take captures the pieces that find has found: by guarding them, where that is possible; else on
// the device as long as it has memory for them, then in buffers, then by writing them to the
// target.
func (s *Snapshot) take(ctx context.Context, found <-chan finding) error {
	for f := range found {
		s.add(f.pieces, &s.stats.CutBytes, &s.total)
		rest, err := s.shadow(s.guard(f))
		if err != nil {
			return wrap("cut", f.memory, err)
		}
		err = pool.Each(ctx, takers(), rest, func(piece *cutPiece) error {
			if err := s.takeOne(ctx, f.memory, piece); err != nil {
				return wrap("cut", f.memory, err)
			}
			s.progress("cut", piece)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shadow copies pieces within their device, if it supports that, and returns the rest.
func (s *Snapshot) shadow(f finding) ([]*cutPiece, error) {
	shadows := s.shadows[f.memory]
	if shadows == nil || s.options.Direct {
		return f.pieces, nil
	}
	chunks := make([]uint64, len(f.pieces))
	for i, piece := range f.pieces {
		chunks[i] = piece.Address
	}
	copies, err := shadows.Copy(chunks)
	if err != nil {
		return nil, err
	}
	for i, copied := range copies {
		f.pieces[i].shadow = copied
	}
	s.add(f.pieces[:len(copies)], &s.stats.DeviceBytes)
	s.progress("cut", f.pieces[:len(copies)]...)
	return f.pieces[len(copies):], nil
}

// takeOne copies a piece to a buffer, or writes it if no buffer is left.
func (s *Snapshot) takeOne(ctx context.Context, m *memory, piece *cutPiece) error {
	if copied := s.takeBuffer(); copied != nil {
		if err := readInto(m.source.Memory, piece.Range, copied.bytes); err != nil {
			s.buffers.give(copied)
			return err
		}
		piece.copied = copied
		return nil
	}
	// Only a memory that cannot be viewed needs this; then it exceeds the budget by a chunk for
	// each processor.
	var stage *buffer
	spare := func() []byte {
		stage = s.staging.take()
		return stage.bytes
	}
	err := inPlace(m.source.Memory, piece.Range, spare, func(bytes []byte) error {
		s.limit.Charge(len(bytes))
		err := s.put(ctx, m, piece.Range, bytes, &s.stats.DirectBytes)
		if known, found := m.find(piece.Range); found {
			piece.hash = known.hash
		}
		return err
	})
	if stage != nil {
		s.staging.give(stage)
	}
	return err
}

// takeBuffer returns a buffer, or nil if none is left.
func (s *Snapshot) takeBuffer() *buffer {
	if s.options.Direct {
		return nil
	}
	return s.buffers.take()
}
