package shadow

import (
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

const (
	// blockChunks is how many chunks are allocated and freed together.
	blockChunks = 32
	blockBytes  = blockChunks * gpu.ChunkBytes
)

// Memory is device memory apart from the program's.
type Memory interface {
	// Alloc allocates memory; the error is abi.OutOfMemory if there is too little. It does not wait
	// for shadows.
	Alloc(bytes uint64) (address uint64, err error)
	// Free frees memory, unless it was freed with the context.
	Free(address uint64) error
	ReadAt(p []byte, address int64) (int, error)
	Usage() (free, total uint64)
}

// Room holds the shadows of a device. It is safe for concurrent use.
type Room struct {
	memory Memory
	stream gpu.Stream

	mu      sync.Mutex
	blocks  map[*block]struct{}
	changed chan struct{} // closed and replaced when a block's last copy is released
}

// block is memory for some chunks.
type block struct {
	address uint64
	owner   *shadows
	taken   int // used slots, from the first on
	held    int // used slots that are not released
}

// NewRoom returns an empty room. Nothing else may use the stream.
func NewRoom(memory Memory, stream gpu.Stream) *Room {
	return &Room{memory: memory, stream: stream, blocks: map[*block]struct{}{}, changed: make(chan struct{})}
}

// ReclaimFor calls allocate, which gets memory for the program. If it fails because shadows hold
// the memory, ReclaimFor frees blocks without copies, waits for blocks with copies, and retries.
func (r *Room) ReclaimFor(allocate func() error) error {
	for {
		err := allocate()
		if !errors.Is(err, abi.OutOfMemory) {
			return err
		}
		r.mu.Lock()
		wait, lent := r.changed, len(r.blocks)
		reclaimed, failed := r.reclaim()
		r.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case reclaimed: // try again
		case lent == 0:
			return err
		default:
			<-wait
		}
	}
}

// WaitReleased waits until no block holds a copy.
func (r *Room) WaitReleased() {
	for {
		r.mu.Lock()
		wait, held := r.changed, 0
		for b := range r.blocks {
			held += b.held
		}
		r.mu.Unlock()
		if held == 0 {
			return
		}
		<-wait
	}
}

// reclaim frees the blocks that hold no copy. mu is held.
func (r *Room) reclaim() (some bool, err error) {
	for b := range r.blocks {
		if b.held == 0 {
			if err := r.free(b); err != nil {
				return some, err
			}
			some = true
		}
	}
	return some, nil
}

// free frees a block. mu is held.
func (r *Room) free(b *block) error {
	if err := r.memory.Free(b.address); err != nil {
		return fmt.Errorf("free memory of shadows: %w", err)
	}
	delete(r.blocks, b)
	r.wakeWaiters()
	return nil
}

// wakeWaiters wakes all waiters for memory. mu is held.
func (r *Room) wakeWaiters() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// allocate allocates a block. It returns nil if that would leave others less memory than shadows
// have. mu is held.
func (r *Room) allocate(to *shadows) (*block, error) {
	if free, _ := r.memory.Usage(); free < uint64(len(r.blocks)+2)*blockBytes {
		return nil, nil
	}
	address, err := r.memory.Alloc(blockBytes)
	if errors.Is(err, abi.OutOfMemory) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("allocate memory for shadows: %w", err)
	}
	b := &block{address: address, owner: to}
	r.blocks[b] = struct{}{}
	return b, nil
}
