package shadow

import (
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

const (
	// blockChunks is how many chunks are mapped and unmapped together.
	blockChunks = 32
	blockBytes  = blockChunks * gpu.ChunkBytes
)

// Memory is what of a gpu.Memory a Room is made of.
type Memory interface {
	Map(r gpu.Range) error
	Unmap(r gpu.Range) error
	ReadAt(p []byte, address int64) (int, error)
	Usage() (free, total uint64)
}

// Room is where shadows are. It is safe for concurrent use.
type Room struct {
	memory Memory
	stream gpu.Stream

	mu sync.Mutex
	// vacant are the addresses of blocks that are not mapped.
	vacant []uint64
	lent   map[*block]struct{}
	freed  chan struct{} // closed, and made anew, when a block holds no copy any more
}

// block is mapped memory for some chunks.
type block struct {
	address uint64
	owner   *shadows
	taken   int // slots that were handed out, from the first on
	held    int // of them that have not been released
}

func (b *block) memory() gpu.Range { return gpu.Range{Address: b.address, Bytes: blockBytes} }

// NewRoom makes a room of addresses in which nothing is mapped. memory is the device's, without the waiting of Room.Map;
// stream is one that nothing else uses.
func NewRoom(memory Memory, stream gpu.Stream, area gpu.Range) *Room {
	r := &Room{memory: memory, stream: stream, lent: map[*block]struct{}{}, freed: make(chan struct{})}
	for at := area.Address; at+blockBytes <= area.End(); at += blockBytes {
		r.vacant = append(r.vacant, at)
	}
	return r
}

// Map maps memory for the program. Where there is none but what shadows hold, it gives up their blocks without copies, and
// waits for those with copies.
func (r *Room) Map(m gpu.Range) error {
	for {
		err := r.memory.Map(m)
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

// reclaim unmaps the blocks that hold no copy.
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
	if err := r.memory.Unmap(b.memory()); err != nil {
		return fmt.Errorf("give back memory of shadows: %w", err)
	}
	delete(r.lent, b)
	r.vacant = append(r.vacant, b.address)
	r.announce()
	return nil
}

// announce lets those look again who wait for memory.
func (r *Room) announce() {
	close(r.freed)
	r.freed = make(chan struct{})
}

// lend maps one more block, unless that left others less than shadows have.
func (r *Room) lend(to *shadows) (*block, error) {
	free, _ := r.memory.Usage()
	last := len(r.vacant) - 1
	if last < 0 || free < uint64(len(r.lent)+2)*blockBytes {
		return nil, nil
	}
	b := &block{address: r.vacant[last], owner: to}
	err := r.memory.Map(b.memory())
	if errors.Is(err, abi.OutOfMemory) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("map memory for shadows: %w", err)
	}
	r.vacant = r.vacant[:last]
	r.lent[b] = struct{}{}
	return b, nil
}
