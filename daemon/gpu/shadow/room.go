package shadow

import (
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

const (
	// blockChunks is how many chunks are got and given back together.
	blockChunks = 32
	blockBytes  = blockChunks * gpu.ChunkBytes
)

// Memory is memory of a device apart from the program's.
type Memory interface {
	// Alloc returns the address of so many bytes; abi.OutOfMemory where there are none. It does not
	// wait for shadows.
	Alloc(bytes uint64) (address uint64, err error)
	// Free gives it back, unless it went with the context.
	Free(address uint64) error
	ReadAt(p []byte, address int64) (int, error)
	Usage() (free, total uint64)
}

// Room is where shadows are. It is safe for concurrent use.
type Room struct {
	memory Memory
	stream gpu.Stream

	mu    sync.Mutex
	lent  map[*block]struct{}
	freed chan struct{} // closed, and made anew, when a block holds no copy any more
}

// block is memory for some chunks.
type block struct {
	address uint64
	owner   *shadows
	taken   int // slots that were handed out, from the first on
	held    int // of them that have not been released
}

// NewRoom makes a room. stream is one that nothing else uses.
func NewRoom(memory Memory, stream gpu.Stream) *Room {
	return &Room{memory: memory, stream: stream, lent: map[*block]struct{}{}, freed: make(chan struct{})}
}

// ReclaimFor calls allocate, which gives the program memory. Where there is none but what shadows hold,
// it gives up their blocks without copies, waits for those with copies, and calls it again.
func (r *Room) ReclaimFor(allocate func() error) error {
	for {
		err := allocate()
		if !errors.Is(err, abi.OutOfMemory) {
			return err
		}
		r.mu.Lock()
		wait, lent := r.freed, len(r.lent)
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
		wait, held := r.freed, 0
		for b := range r.lent {
			held += b.held
		}
		r.mu.Unlock()
		if held == 0 {
			return
		}
		<-wait
	}
}

// reclaim gives back the blocks that hold no copy.
func (r *Room) reclaim() (some bool, err error) {
	for b := range r.lent {
		if b.held == 0 {
			if err := r.giveBack(b); err != nil {
				return some, err
			}
			some = true
		}
	}
	return some, nil
}

func (r *Room) giveBack(b *block) error {
	if err := r.memory.Free(b.address); err != nil {
		return fmt.Errorf("give back memory of shadows: %w", err)
	}
	delete(r.lent, b)
	r.announce()
	return nil
}

// announce lets those look again who wait for memory.
func (r *Room) announce() {
	close(r.freed)
	r.freed = make(chan struct{})
}

// lend gets one more block, unless that left others less than shadows have.
func (r *Room) lend(to *shadows) (*block, error) {
	if free, _ := r.memory.Usage(); free < uint64(len(r.lent)+2)*blockBytes {
		return nil, nil
	}
	address, err := r.memory.Alloc(blockBytes)
	if errors.Is(err, abi.OutOfMemory) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get memory for shadows: %w", err)
	}
	b := &block{address: address, owner: to}
	r.lent[b] = struct{}{}
	return b, nil
}
