package capture

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// buffers is the memory for copies: buffers of one chunk each, up to a budget. They are outside of
// Go's heap, because Go would zero them and keep them after the checkpoint, and because they must
// be populated before the program is paused.
type buffers struct {
	limit int
	pin   func(memory []byte) (unpin func() error, err error) // nil if no device supports it

	mu       sync.Mutex
	reserved []byte
	free     []*buffer
	grown    int // buffers with memory
	unpins   []func() error
}

// buffer holds one chunk.
type buffer struct{ bytes []byte }

// newBuffers reserves addresses for as many buffers as the budget allows, but at least one.
func newBuffers(budgetBytes uint64) (*buffers, error) {
	b := &buffers{limit: int(max(budgetBytes/image.ChunkBytes, 1))}
	reserved, err := unix.Mmap(-1, 0, (b.limit+1)*image.ChunkBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d buffers for copies: %w", b.limit, err)
	}
	_ = unix.Madvise(reserved, unix.MADV_HUGEPAGE) // small pages work, too
	b.reserved = reserved
	return b, nil
}

// take returns a buffer, or nil if the budget is used up.
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
	// Kernels before 5.14 cannot populate memory in advance; the copy does it then.
	_ = unix.Madvise(bytes, unix.MADV_POPULATE_WRITE)
	b.pinned(bytes)
	return &buffer{bytes}
}

// pinned pins a buffer. On failure, for example at a limit, the buffer remains usable, but copies
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

// give returns a buffer.
func (b *buffers) give(one *buffer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, one)
}

// prepare populates count buffers, so that take need not wait for memory.
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

// peakBytes returns the largest amount of memory that the buffers used.
func (b *buffers) peakBytes() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uint64(b.grown) * image.ChunkBytes
}

// close frees the memory. No buffer may be used afterwards.
func (b *buffers) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, unpin := range b.unpins {
		_ = unpin() // fails only if the device has failed, which ends all copies
	}
	b.unpins = nil
	if b.reserved != nil {
		_ = unix.Munmap(b.reserved)
		b.reserved, b.free, b.limit = nil, nil, b.grown // no further buffers
	}
}
