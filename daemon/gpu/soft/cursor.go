package soft

import "github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"

// cursor looks up addresses for many small accesses. It keeps the last span for writing and the
// last for reading. Both belong to one space.Reader: with two readers, a goroutine could hold a
// span through one and wait for a chunk through the other, and deadlock with Unmap.
type cursor struct {
	memory   *space.Memory
	reader   *space.Reader
	version  uint64
	spans    [2]space.Span // by role
	lookedUp bool          // a span was looked up since the last tick
	budget   int           // bytes to move until the next tick
}

// The roles of spans.
const (
	reading = iota
	writing
)

// cursorBytes is how many bytes a cursor moves before it lets Unmap and ClearDirty proceed. A row
// counts as at least rowCost.
const (
	cursorBytes = 1 << 20
	rowCost     = 1 << 12
)

func newCursor(memory *space.Memory) *cursor {
	c := &cursor{memory: memory, reader: space.NewReader(), budget: cursorBytes}
	c.version = c.reader.Enter()
	return c
}

// pair returns the memory from two addresses to the ends of their spans. The slices are valid until
// the next use of the cursor.
func (c *cursor) pair(write, read uint64) (out, in []byte, err error) {
	for {
		if err := c.lookup(writing, write); err != nil {
			return nil, nil, err
		}
		if err := c.lookup(reading, read); err != nil {
			return nil, nil, err
		}
		if c.revalidate() {
			return c.slice(writing, write), c.slice(reading, read), nil
		}
	}
}

// single is pair for one address.
func (c *cursor) single(address uint64, write bool) ([]byte, error) {
	role := reading
	if write {
		role = writing
	}
	for {
		if err := c.lookup(role, address); err != nil {
			return nil, err
		}
		if c.revalidate() {
			return c.slice(role, address), nil
		}
	}
}

// lookup makes the role's span cover an address.
func (c *cursor) lookup(role int, address uint64) error {
	if address-c.spans[role].Address < uint64(len(c.spans[role].Memory)) {
		return nil
	}
	span, err := c.memory.Find(c.reader, address, role == writing)
	if err != nil {
		return err
	}
	c.spans[role], c.lookedUp = span, true
	return nil
}

// revalidate ticks if a tick is due and reports whether the spans are still valid. If they are not,
// it drops them.
func (c *cursor) revalidate() bool {
	if !c.lookedUp && c.budget > 0 {
		return true
	}
	c.lookedUp, c.budget = false, cursorBytes
	version := c.reader.Tick()
	if version == c.version {
		return true
	}
	c.version, c.spans = version, [2]space.Span{}
	return false
}

// slice returns the role's span from address on.
func (c *cursor) slice(role int, address uint64) []byte {
	return c.spans[role].Memory[address-c.spans[role].Address:]
}

// consume subtracts n from the budget and returns it.
func (c *cursor) consume(n int) uint64 {
	c.budget -= max(n, rowCost)
	return uint64(n)
}

func (c *cursor) close() {
	c.reader.Exit()
	c.reader.Release()
}
