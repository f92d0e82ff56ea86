package store

import (
	"context"
	"fmt"
	"slices"
)

// Keep says which generations to keep: the newest ones and those named in Generations, or all but
// those in AllBut.
type Keep struct {
	Newest      int
	Generations []uint64
	// AllBut are the generations to remove. The other fields are empty then.
	AllBut []uint64
	// Progress, if not nil, is called while needed contents of wasteful packs are copied, by
	// several goroutines.
	Progress func(doneBytes, totalBytes uint64)
}

// has reports whether the generation all[i] is kept.
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
	// PacksRemoved had no needed contents; PacksRewritten had few, which were copied to a new pack.
	PacksRemoved   int    `json:"packs_removed"`
	PacksRewritten int    `json:"packs_rewritten"`
	FreedBytes     uint64 `json:"freed_bytes"`
	// Damage is damage that was found; empty if none. Damaged packs are not rewritten.
	Damage string `json:"damage,omitempty"`
}

const (
	// A pack is rewritten if less than 1/wasteful of it is needed.
	wasteful = 2
	// Packs below smallPackBytes are merged if there are more than manySmall.
	smallPackBytes = 4 << 20
	manySmall      = 32
)

// Prune removes the other generations and the contents that only they needed. It first checks what
// is kept: if something is missing, it removes nothing. After an interruption it may be called
// again.
func (d *Dir) Prune(ctx context.Context, keep Keep) (*Pruned, error) {
	done, err := d.prune(ctx, keep)
	if err != nil {
		return nil, fmt.Errorf("prune %s: %w", d.Path(), err)
	}
	return done, nil
}

// prune holds the writer's lock. It removes manifests before packs: no manifest lacks contents.
func (d *Dir) prune(ctx context.Context, keep Keep) (*Pruned, error) {
	writer, err := d.lock()
	if err != nil {
		return nil, err
	}
	defer writer.close()
	if err := d.cleanUp(writer); err != nil {
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

// mergePacks is how many packs may exist before Begin merges small ones.
const mergePacks = 256

// mergeSmall merges small packs if there are many, because every checkpoint and restore opens all
// packs. The caller holds the lock. Failures are ignored; the next Begin tries again.
func (d *Dir) mergeSmall(ctx context.Context, writer held) error {
	names, err := d.packs.names()
	if err != nil || len(names) <= mergePacks {
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

// PlanPrune returns what Prune would do, and does nothing. It takes no lock, so the result is a
// snapshot. FreedBytes is an estimate.
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

// choose divides the generations into kept and removed ones.
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
		return nil, fmt.Errorf(
			"%w would be left; to remove the whole image: pos_cli --clean --dir DIR",
			ErrNoGeneration,
		)
	}
	return done, nil
}
