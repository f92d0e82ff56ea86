package capture

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// guard guards pieces that can be copied when the program writes them, and returns the others.
func (s *Snapshot) guard(f finding) finding {
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
	rest := s.startGuard(guard, chunks, func(address uint64, content []byte) {
		s.saveGuarded(f.memory, at[address], content)
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

// startGuard guards chunks, unless the snapshot is given up, and returns those that it could not.
func (s *Snapshot) startGuard(guard gpu.WriteGuard, chunks []uint64, save gpu.Saver) (rest []uint64) {
	s.guarding.Lock()
	defer s.guarding.Unlock()
	if s.givenUp.Err() != nil {
		return chunks
	}
	s.guarded = append(s.guarded, guard)
	return guard.Guard(chunks, save)
}

// saveGuarded saves a piece as it was at the cut: into a buffer, or, if none is left, by writing
// it.
func (s *Snapshot) saveGuarded(m *memory, piece *cutPiece, content []byte) {
	saved := false
	defer func() {
		if !saved { // it panics, and the chunk may be written now
			s.fail(errUnsaved)
		}
	}()
	s.saveOne(m, piece, content)
	saved = true
}

// errUnsaved is why a snapshot fails in which a chunk was not saved.
var errUnsaved = errors.New("a chunk was not saved before it was written")

// saveOne is saveGuarded of a chunk that is not written yet.
func (s *Snapshot) saveOne(m *memory, piece *cutPiece, content []byte) {
	if copied := s.takeBuffer(); copied != nil {
		copy(copied.bytes, content)
		piece.copied = copied
		return
	}
	s.limit.Charge(len(content))
	done, err := s.putUnlessGivenUp(content)
	if err != nil {
		s.fail(wrap("save before it is written", m, err))
		return
	}
	s.record(m, piece.Range, content, done, nil)
	piece.hash = done.hash
}

// putUnlessGivenUp stores a content. The program may wait for it, so a disk that hangs must not
// hold it longer than the snapshot lasts.
func (s *Snapshot) putUnlessGivenUp(content []byte) (stored, error) {
	type result struct {
		stored
		err error
	}
	ended := make(chan result, 1)
	content = slices.Clone(content) // the program may change it while the disk still hangs
	s.putting.Add(1)
	go func() {
		defer s.putting.Add(-1)
		// What is written as the request ends is still saved, so it is not the request that ends this.
		hash, written, err := s.target.Put(s.givenUp, content)
		ended <- result{stored{hash, written}, err}
	}()
	select {
	case r := <-ended:
		return r.stored, r.err
	case <-s.givenUp.Done():
		return stored{}, context.Cause(s.givenUp)
	}
}

// GiveUp makes the snapshot fail, and lets the program write everything at once, even if a disk
// hangs. It may be called at any time, also while another method runs.
func (s *Snapshot) GiveUp() {
	s.giveUp(errGivenUp)
	s.fail(errGivenUp) // first: Finish takes a piece without a guard for saved, unless it has failed
	s.Discard()
}

var errGivenUp = errors.New("the checkpoint was given up")

// IsSettled reports whether nothing of an ended snapshot is being stored any longer. The target
// must not be closed before.
func (s *Snapshot) IsSettled() bool { return s.putting.Load() == 0 }

// settleInterval is how often Settle looks.
const settleInterval = 10 * time.Millisecond

// Settle waits until an ended snapshot is settled.
func (s *Snapshot) Settle() {
	for !s.IsSettled() {
		time.Sleep(settleInterval) //nolint:forbidigo // a disk hangs
	}
}

// Discard lets the program write what the last cut has not saved yet, which is then lost. Cut may
// be called again.
func (s *Snapshot) Discard() {
	s.guarding.Lock()
	defer s.guarding.Unlock()
	for _, each := range s.guarded {
		each.Unguard()
	}
	s.guarded = nil
}

// fail remembers why a piece was not saved when it was written.
func (s *Snapshot) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

// failure returns why a piece was not saved when it was written, if there is such a piece.
func (s *Snapshot) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
