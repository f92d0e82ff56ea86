package store

import (
	"context"
	"fmt"
	"slices"
)

// Keep says which generations stay: the newest ones, and those that are named; or all but those
// that are named.
type Keep struct {
	Newest      int
	Generations []uint64
	// AllBut, when there are any, are those that go; the other fields are empty then.
	AllBut []uint64
	// Progress, if not nil, is told how far the copying of what is still needed of wasteful packs is,
	// by several goroutines.
	Progress func(doneBytes, totalBytes uint64)
}

// has reports whether the generation that is at a place of all that there are stays.
func (k Keep) has(all []uint64, i int) bool {
	if len(k.AllBut) > 0 {
		return !slices.Contains(k.AllBut, all[i])
	}
	return i >= len(all)-k.Newest || slices.Contains(k.Generations, all[i])
}

// Pruned says what Prune did.
type Pruned struct {
	Removed []uint64 `json:"removed"`
	Kept    []uint64 `json:"kept"`
	// PacksRemoved had nothing left that is needed; PacksRewritten had little, which went into a new
	// one.
	PacksRemoved   int    `json:"packs_removed"`
	PacksRewritten int    `json:"packs_rewritten"`
	FreedBytes     uint64 `json:"freed_bytes"`
	// Damage was found on the way; empty: none. Packs that have some are not rewritten.
	Damage string `json:"damage,omitempty"`
}

const (
	// A pack is written again when less than one part in wasteful of it is needed.
	wasteful = 2
	// Packs below smallPackBytes are put together when there are more than manySmall.
	smallPackBytes = 4 << 20
	manySmall      = 32
)

// Prune removes the other generations, and what only they needed. What is kept is looked at first:
// when something of it is missing, nothing is removed. Cut off at any moment, it may be called
// again.
func (d *Dir) Prune(ctx context.Context, keep Keep) (*Pruned, error) {
	done, err := d.prune(ctx, keep)
	if err != nil {
		return nil, fmt.Errorf("prune %s: %w", d.Path(), err)
	}
	return done, nil
}

func (d *Dir) prune(ctx context.Context, keep Keep) (*Pruned, error) {
	writer, err := d.lock()
	if err != nil {
		return nil, err
	}
	defer writer.close()
	if err := d.recover(writer); err != nil {
		return nil, err
	}
	all, err := d.Generations()
	if err != nil {
		return nil, err
	}
	done, err := keep.choose(all)
	if err != nil {
		return nil, err
	}
	s := &sweep{dir: d, writer: writer, done: done, progress: keep.Progress}
	defer s.close()
	if err := s.mark(ctx); err != nil {
		return nil, err
	}
	for _, n := range done.Removed {
		if err := d.generations.remove(generationName(n)); err != nil {
			return nil, err
		}
	}
	if err := d.generations.sync(); err != nil {
		return nil, err
	}
	return done, s.packs(ctx)
}

// tidyPacks is how many packs there may be before small ones are put together without being asked.
const tidyPacks = 256

// tidy puts small packs together when there are many: each is opened for every checkpoint and every
// restore. It is for who holds the lock. What it cannot do now, the next one may.
func (d *Dir) tidy(ctx context.Context, writer held) error {
	names, err := d.packs.names()
	if err != nil || len(names) <= tidyPacks {
		return err
	}
	all, err := d.Generations()
	if err != nil {
		return err
	}
	s := &sweep{dir: d, writer: writer, done: &Pruned{Kept: all}}
	defer s.close()
	if err := s.mark(ctx); err == nil {
		_ = s.packs(ctx)
	}
	return ctx.Err()
}

// PlanPrune says what Prune would do, and does nothing. It needs no lock, so what it says holds for
// this moment. FreedBytes is about what comes back.
func (d *Dir) PlanPrune(ctx context.Context, keep Keep) (*Pruned, error) {
	all, err := d.Generations()
	if err != nil {
		return nil, fmt.Errorf("prune %s: %w", d.Path(), err)
	}
	done, err := keep.choose(all)
	if err != nil {
		return nil, fmt.Errorf("prune %s: %w", d.Path(), err)
	}
	s := &sweep{dir: d, done: done}
	defer s.close()
	if err := s.mark(ctx); err != nil {
		return nil, fmt.Errorf("prune %s: %w", d.Path(), err)
	}
	return done, s.estimate()
}

// choose parts the generations into those that stay and those that go.
func (k Keep) choose(all []uint64) (*Pruned, error) {
	for _, n := range slices.Concat(k.Generations, k.AllBut) {
		if !slices.Contains(all, n) {
			return nil, fmt.Errorf("%w: %d", ErrNoGeneration, n)
		}
	}
	done := &Pruned{Removed: []uint64{}}
	for i, n := range all {
		if k.has(all, i) {
			done.Kept = append(done.Kept, n)
		} else {
			done.Removed = append(done.Removed, n)
		}
	}
	if len(done.Kept) == 0 {
		return nil, fmt.Errorf("%w would stay; the whole image is removed by: pos_cli --clean --dir DIR", ErrNoGeneration)
	}
	return done, nil
}
