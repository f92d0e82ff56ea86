package shadow

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// shadows are the copies of one checkpoint.
type shadows struct{ room *Room }

// slot is the place of a chunk's copy in a block.
type slot struct {
	block   *block
	address uint64
}

// NewShadows allocates memory for copies of up to chunks chunks.
func (r *Room) NewShadows(chunks int) (_ gpu.Shadows, room int, err error) {
	s := &shadows{r}
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; room < chunks; room += blockChunks {
		b, err := r.allocate(s)
		if err != nil {
			return nil, 0, errors.Join(err, s.freeAll())
		}
		if b == nil {
			break
		}
	}
	return s, room, nil
}

// Copy copies chunks to free slots.
func (s *shadows) Copy(chunks []uint64) ([]gpu.Shadow, error) {
	slots, err := s.reserve(len(chunks))
	if err == nil {
		err = s.fill(slots, chunks)
	}
	if err != nil {
		for i := range slots {
			err = errors.Join(err, slots[i].Release())
		}
		return nil, err
	}
	out := make([]gpu.Shadow, len(slots))
	for i := range slots {
		out[i] = &slots[i]
	}
	return out, nil
}

// reserve takes up to count slots, consecutive ones of each block.
func (s *shadows) reserve(count int) (slots []slot, err error) {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	take := func(b *block) {
		for ; b.taken < blockChunks && len(slots) < count; b.taken++ {
			slots = append(slots, slot{b, b.address + uint64(b.taken)*gpu.ChunkBytes})
			b.held++
		}
	}
	for b := range r.blocks {
		if b.owner == s {
			take(b)
		}
	}
	for len(slots) < count {
		b, err := r.allocate(s)
		if b == nil {
			return slots, err
		}
		take(b)
	}
	return slots, nil
}

// fill copies chunks to slots, with one copy for slots and chunks that are consecutive. It does not
// merge across blocks: they are separate allocations, which a driver does not copy as one.
func (s *shadows) fill(slots []slot, chunks []uint64) error {
	for first := 0; first < len(slots); {
		end := first + 1
		for end < len(slots) && slots[end].block == slots[end-1].block &&
			slots[end].address == slots[end-1].address+gpu.ChunkBytes && chunks[end] == chunks[end-1]+gpu.ChunkBytes {
			end++
		}
		err := s.room.stream.Submit(gpu.Copy{
			Dst: gpu.Place{Address: slots[first].address}, Src: gpu.Place{Address: chunks[first]},
			Extent: [3]uint64{uint64(end-first) * gpu.ChunkBytes, 1, 1},
		})
		if err != nil {
			return fmt.Errorf("copy %d chunks to shadows: %w", end-first, err)
		}
		first = end
	}
	if err := s.room.stream.Synchronize(); err != nil {
		return fmt.Errorf("copy %d chunks to shadows: %w", len(slots), err)
	}
	return nil
}

// Close frees all memory.
func (s *shadows) Close() error {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.freeAll()
}

// freeAll frees the blocks of this checkpoint. mu is held.
func (s *shadows) freeAll() (err error) {
	for b := range s.room.blocks {
		if b.owner == s {
			err = errors.Join(err, s.room.free(b))
		}
	}
	return err
}

// Read copies a shadow to the host.
func (c *slot) Read(into []byte) error {
	_, err := c.block.owner.room.memory.ReadAt(into[:gpu.ChunkBytes], int64(c.address))
	return err
}

// Release releases a copy. A block without copies stays allocated for other copies until the
// program needs the memory.
func (c *slot) Release() error {
	r := c.block.owner.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.block.held--; c.block.held == 0 {
		c.block.taken = 0
		r.wakeWaiters()
	}
	return nil
}
