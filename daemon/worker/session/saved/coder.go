package saved

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// ErrDamaged means that bytes are no saved session.
var ErrDamaged = errors.New("the saved session is damaged")

// ErrVersion means that a session was saved by a newer phos.
var ErrVersion = errors.New("the session was saved by a newer version")

// coder goes over a session and writes or reads what it meets.
type coder struct {
	reading bool
	version uint32
	out     []byte // what is written so far
	in      []byte // what is left to read
	depth   int    // of graphs in graphs
	err     error  // the first; nothing is done after it
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
	c.in = nil
}

// number is any integer, short when it is small.
func number[T ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, v *T) {
	if !c.reading {
		c.out = binary.AppendUvarint(c.out, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.in)
	if n <= 0 || c.err != nil {
		c.fail("a number is cut off")
		return
	}
	c.in = c.in[n:]
	if *v = T(u); uint64(*v) != u {
		c.fail("the number %d is too large", u)
	}
}

func (c *coder) flag(v *bool) {
	var u uint8
	if *v {
		u = 1
	}
	if number(c, &u); u > 1 {
		c.fail("%d is neither yes nor no", u)
	}
	*v = u == 1
}

// shared is bytes; what is read shares its memory with the input.
func (c *coder) shared(v *[]byte) {
	n := uint64(len(*v))
	number(c, &n)
	switch {
	case !c.reading:
		c.out = append(c.out, *v...)
	case n > uint64(len(c.in)):
		c.fail("%d bytes are cut off", n)
	default:
		*v, c.in = c.in[:n:n], c.in[n:]
	}
}

// bytes is bytes; what is read is a copy. None come back as nil.
func (c *coder) bytes(v *[]byte) {
	c.shared(v)
	if c.reading {
		*v = append([]byte(nil), *v...)
	}
}

func (c *coder) text(v *string) {
	raw := []byte(*v)
	c.shared(&raw)
	if c.reading {
		*v = string(raw)
	}
}

// list is a sequence of anything that takes at least a byte.
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
		c.fail("a list of %d is cut off", n)
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

// numbers is a list of integers.
func numbers[T ~int | ~int32 | ~uint8 | ~uint32 | ~uint64](c *coder, v *[]T) { list(c, v, number[T]) }

// deeper runs f one level further down.
func (c *coder) deeper(most int, f func()) {
	c.depth++
	defer func() { c.depth-- }()
	if c.depth > most {
		c.fail("more than %d graphs lie in each other", most)
		return
	}
	f()
}
