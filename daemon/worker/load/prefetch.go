package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Eager loads everything, with all processors, and returns the first error.
func (l *Loader) Eager(ctx context.Context) error {
	l.Complete()
	for _, b := range l.open() {
		if err := pool.Each(ctx, pool.All(), b.chunks(), b.touch); err != nil {
			return err
		}
	}
	return nil
}

// Prefetch loads what the program has not touched yet, while it runs, in the order of use before
// the checkpoint. Unreadable chunks are skipped and reported at the end.
func (l *Loader) Prefetch(ctx context.Context) error {
	l.Complete()
	for _, b := range l.open() {
		err := pool.Each(ctx, pool.Background(), b.chunks(), func(chunk image.Chunk) error {
			_ = b.touch(chunk) // reported by Failed
			return nil
		})
		if err != nil {
			return err
		}
	}
	return l.Failed()
}

// open returns the backings that exist now.
func (l *Loader) open() []*Backing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Backing(nil), l.backings...)
}

// chunks returns the chunks that the image has for this backing; none without an image.
func (b *Backing) chunks() []image.Chunk {
	if b.image == nil {
		return nil
	}
	return b.image.chunks
}

// touch loads a chunk, unless it is no longer mapped.
func (b *Backing) touch(chunk image.Chunk) error {
	var err error
	if viewer, ok := b.memory.(gpu.Viewer); ok {
		err = viewer.View(gpu.Range{Address: chunk.Address, Bytes: 1}, func([]byte) error { return nil })
	} else {
		_, err = b.memory.ReadAt(make([]byte, 1), int64(chunk.Address))
	}
	if err == nil || errors.Is(err, abi.IllegalAddress) {
		return nil
	}
	return fmt.Errorf("load %s: %w", b.image.name, err)
}
