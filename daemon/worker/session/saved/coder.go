package saved

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// ErrDamaged is returned when bytes are not a valid saved session.
var ErrDamaged = errors.New("saved session is damaged")

// ErrVersion is returned when a session was saved by a newer phos.
var ErrVersion = errors.New("the session was saved by a newer version")

// coder encodes or decodes a session, field by field.
type coder struct {
	reading bool
	version uint32
	out     []byte // the output so far
	in      []byte // the rest of the input
	depth   int    // of graphs in graphs
	err     error  // the first error; nothing is done after it
}

// fail sets the error unless there is one already.
func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
	c.in = nil
}

// number codes an integer as a varint.
func number[T ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.out = binary.AppendUvarint(c.out, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.in)
	if n <= 0 || c.err != nil {
		c.fail("a number is truncated")
		return
	}
	c.in = c.in[n:]
	if *v = T(u); uint64(*v) != u {
		c.fail("number %d is too large", u)
	}
}

// boolean codes a bool.
func (c *coder) boolean(v *bool) {
	var u uint8
	if *v {
		u = 1
	}
	if number(c, &u); u > 1 {
		c.fail("%d is not a bool", u)
	}
	*v = u == 1
}

// shared codes bytes. When reading, they share memory with the input.
func (c *coder) shared(v *[]byte) {
	n := uint64(len(*v))
	number(c, &n)
	switch {
	case !c.reading:
		c.out = append(c.out, *v...)
	case n > uint64(len(c.in)):
		c.fail("%d bytes are truncated", n)
	default:
		*v, c.in = c.in[:n:n], c.in[n:]
	}
}

// bytes codes bytes. When reading, they are copied; empty bytes are nil.
func (c *coder) bytes(v *[]byte) {
	c.shared(v)
	if c.reading {
		*v = append([]byte(nil), *v...)
	}
}

// text codes a string.
func (c *coder) text(v *string) {
	raw := []byte(*v)
	c.shared(&raw)
	if c.reading {
		*v = string(raw)
	}
}

// list codes a list. Each element must take at least a byte, which bounds the allocation for
// damaged input.
func list[T any](c *coder, v *[]T, each func(c *coder, v *T)) {
	n := uint64(len(*v))
	number(c, &n)
	if !c.reading {
		for i := range *v {
			each(c, &(*v)[i])
		}
		return
	}
	if n > uint64(len(c.in)) {
		c.fail("a list of %d elements is truncated", n)
	}
	*v = nil
	for range n {
		if c.err != nil {
			return
		}
		*v = append(*v, *new(T))
		each(c, &(*v)[len(*v)-1])
	}
	*v = slices.Clip(*v)
}

// numbers codes a list of integers.
func numbers[T ~int | ~int32 | ~uint8 | ~uint32 | ~uint64](c *coder, v *[]T) { list(c, v, number[T]) }

// nested runs f one nesting level deeper.
func (c *coder) nested(limit int, f func()) {
	c.depth++
	defer func() { c.depth-- }()
	if c.depth > limit {
		c.fail("graphs are nested more than %d deep", limit)
		return
	}
	f()
}
