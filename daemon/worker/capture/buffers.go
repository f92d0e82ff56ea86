package capture

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// buffers are copies' memory, one chunk each, never more than a budget. They are not of Go's heap:
// it would keep them after the checkpoint, and zero them, and they must be touched before the
// program stands still.
type buffers struct {
	limit int
	pin   func(memory []byte) (unpin func() error, err error) // nil where no device wants it

	mu       sync.Mutex
	reserved []byte
	free     []*buffer
	grown    int // how many have been given memory
	unpins   []func() error
}

// buffer is one of them.
type buffer struct{ bytes []byte }

// newBuffers reserves addresses for as many buffers as the budget allows, one at least.
func newBuffers(budgetBytes uint64) (*buffers, error) {
	b := &buffers{limit: int(max(budgetBytes/image.ChunkBytes, 1))}
	reserved, err := unix.Mmap(-1, 0, (b.limit+1)*image.ChunkBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d buffers for copies: %w", b.limit, err)
	}
	_ = unix.Madvise(reserved, unix.MADV_HUGEPAGE) // small pages serve too
	b.reserved = reserved
	return b, nil
}

// take returns a buffer, nil when the budget is spent.
func (b *buffers) take() *buffer {
	b.mu.Lock()
	if last := len(b.free) - 1; last >= 0 {
		taken := b.free[last]
		b.free = b.free[:last]
		b.mu.Unlock()
		return taken
	}
	at := b.grown
	if at == b.limit {
		b.mu.Unlock()
		return nil
	}
	b.grown++
	b.mu.Unlock()
	bytes := b.reserved[at*image.ChunkBytes:][:image.ChunkBytes:image.ChunkBytes]
	// Where the kernel cannot do it beforehand (before 5.14), the copy does.
	_ = unix.Madvise(bytes, unix.MADV_POPULATE_WRITE)
	b.pinned(bytes)
	return &buffer{bytes}
}

// pinned pins a buffer. One that cannot be, as a limit may be reached, serves too: copies into it
// are slower.
func (b *buffers) pinned(bytes []byte) {
	if b.pin == nil {
		return
	}
	unpin, err := b.pin(bytes)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unpins = append(b.unpins, unpin)
}

func (b *buffers) give(one *buffer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, one)
}

// prepare makes it likely that count buffers can be taken without waiting for memory.
func (b *buffers) prepare(count int) {
	var taken []*buffer
	for range count {
		one := b.take()
		if one == nil {
			break
		}
		taken = append(taken, one)
	}
	for _, one := range taken {
		b.give(one)
	}
}

// peakBytes is the most memory that they had.
func (b *buffers) peakBytes() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uint64(b.grown) * image.ChunkBytes
}

// close gives the memory back. Nobody may use a buffer any more.
func (b *buffers) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, unpin := range b.unpins {
		_ = unpin() // it fails when the device does, and then nothing copies any more
	}
	b.unpins = nil
	if b.reserved != nil {
		_ = unix.Munmap(b.reserved)
		b.reserved, b.free, b.limit = nil, nil, b.grown // nothing more is to be had
	}
}
