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

// Eager brings everything back, with all processors, and returns the first error.
func (l *Loader) Eager(ctx context.Context) error {
	l.Settle()
	for _, b := range l.open() {
		if err := pool.Each(ctx, pool.All(), b.chunks(), b.touch); err != nil {
			return err
		}
	}
	return nil
}

// Prefetch brings back what the program has not touched yet, in the order in which it was used
// before the checkpoint, while the program runs. What cannot be read is passed over and reported at
// the end.
func (l *Loader) Prefetch(ctx context.Context) error {
	l.Settle()
	for _, b := range l.open() {
		err := pool.Each(ctx, pool.Some(), b.chunks(), func(chunk image.Chunk) error {
			_ = b.touch(chunk) // Failed has it
			return nil
		})
		if err != nil {
			return err
		}
	}
	return l.Failed()
}

func (l *Loader) open() []*Backing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Backing(nil), l.backings...)
}

func (b *Backing) chunks() []image.Chunk {
	if b.image == nil {
		return nil
	}
	return b.image.chunks
}

// touch makes sure that a chunk is there. One that is not mapped any more needs nothing.
func (b *Backing) touch(chunk image.Chunk) error {
	var err error
	if viewer, offers := b.memory.(gpu.Viewer); offers {
		err = viewer.View(gpu.Range{Address: chunk.Address, Bytes: 1}, func([]byte) error { return nil })
	} else {
		_, err = b.memory.ReadAt(make([]byte, 1), int64(chunk.Address))
	}
	if err == nil || errors.Is(err, abi.IllegalAddress) {
		return nil
	}
	return fmt.Errorf("bring back %s: %w", b.image.name, err)
}
