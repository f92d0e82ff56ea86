package load

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// Backing maps the memory of one GPU (heap.Backing). Until the loader is complete, mapped memory
// has the image's content for its addresses, however often it is mapped. Afterwards it is zeros,
// because what the program allocates later is not part of the image.
type Backing struct {
	loader *Loader
	image  *memory // nil if the image has no memory of this GPU
	memory gpu.Memory
}

// Backing returns a Backing for a memory of the image. A memory that the image does not have is all
// zeros.
func (l *Loader) Backing(name string, m gpu.Memory) *Backing {
	b := &Backing{loader: l, image: l.memories[name], memory: m}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backings = append(l.backings, b)
	return b
}

// Complete marks the session as complete: from now on new memory is zeros. Prefetch and Eager
// mark it, too.
func (l *Loader) Complete() { l.complete.Store(true) }

// Map maps a range of whole chunks.
func (b *Backing) Map(r gpu.Range) error {
	if b.image == nil || b.loader.complete.Load() || r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0 {
		return b.memory.Map(r)
	}
	lazy, ok := b.memory.(gpu.LazyMapper)
	if !ok {
		return b.mapFilled(r)
	}
	for done := r.Address; done < r.End(); {
		run, saved := b.run(done, r.End())
		back := b.memory.Map
		if saved {
			back = func(r gpu.Range) error { return lazy.MapAbsent(r, b.fill) }
		}
		if err := back(run); err != nil {
			if done > r.Address {
				err = errors.Join(err, b.memory.Unmap(gpu.Range{Address: r.Address, Bytes: done - r.Address}))
			}
			return err
		}
		done = run.End()
	}
	return nil
}

// MapWhole is Map for memory that the session maps at a second address, too.
func (b *Backing) MapWhole(r gpu.Range) error {
	if k, ok := b.memory.(gpu.ReclaimableMemory); ok && b.loader.complete.Load() {
		return k.MapWhole(r)
	}
	return b.Map(r)
}

// Unmap unmaps memory.
func (b *Backing) Unmap(r gpu.Range) error { return b.memory.Unmap(r) }

// run returns the longest run of chunks from address that are either all in the image or all not.
func (b *Backing) run(address, end uint64) (run gpu.Range, saved bool) {
	_, saved = b.image.at[address]
	run = gpu.Range{Address: address, Bytes: gpu.ChunkBytes}
	for run.End() < end {
		if _, next := b.image.at[run.End()]; next != saved {
			break
		}
		run.Bytes += gpu.ChunkBytes
	}
	return run, saved
}

// mapFilled maps a range in one piece and fills it. Some memories can share a range, or map it a
// second time, only if it was mapped in one piece.
func (b *Backing) mapFilled(r gpu.Range) error {
	if err := b.memory.Map(r); err != nil {
		return err
	}
	var saved []uint64
	for address := r.Address; address < r.End(); address += gpu.ChunkBytes {
		if _, ok := b.image.at[address]; ok {
			saved = append(saved, address)
		}
	}
	// One goroutine reads while another waits for the device.
	loaders := pool.Workers{Count: max(pool.All().Count, 2)}
	var spare sync.Pool
	err := pool.Each(context.Background(), loaders, saved, func(address uint64) error {
		content, _ := spare.Get().(*[gpu.ChunkBytes]byte)
		if content == nil {
			content = new([gpu.ChunkBytes]byte)
		}
		defer spare.Put(content)
		if err := b.fill(address, content[:]); err != nil {
			return err
		}
		_, err := b.memory.WriteAt(content[:b.image.at[address].Bytes], int64(address))
		return err
	})
	if err != nil {
		return errors.Join(err, b.memory.Unmap(r))
	}
	return nil
}

// fill reads the content of one chunk.
func (b *Backing) fill(address uint64, into []byte) error {
	chunk, found := b.image.at[address]
	if !found || int(chunk.Bytes) > len(into) {
		return fmt.Errorf("load %#x of %s: %w", address, b.image.name, image.ErrMalformed)
	}
	return b.loader.read(b.image, chunk, into)
}
