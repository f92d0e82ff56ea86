package saved

import (
	"bytes"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Version is the version of the encoding that is written. All older ones can be read. Version 2
// added reservations, blocks and registered memory; 3 memory shared with other processes, and
// peers; 4 shared blocks; 5 variables that the backend placed; 6 the order of their loads and
// unloads; 7 launch attributes in graphs.
const Version = 7

// magic is the beginning of every saved session.
const magic = "phos session\n"

// Session is a whole session except the content of memory.
type Session struct {
	// Images is the code, one copy of each content; objects refer to it by index.
	Images [][]byte
	// Made and Completed count calls.
	Made, Completed uint64
	// Handles is the last index used for each kind of handle. Indices are never reused.
	Handles []uint32
	// LastCapture and LastCallback are the last ids used.
	LastCapture, LastCallback uint64
	Words                     Words
	Devices                   []Device
	// Objects are the live objects, in the order of creation.
	Objects []Object
	// Reservations are sorted by address.
	Reservations []Reservation
	// Exporter is the session's ID for processes that import its memory; zero for none.
	Exporter ipc.ID
}

// Words says which completion words of events are free: those in Free, used from the end, then
// those from Next on.
type Words struct {
	Free []uint32
	Next uint32
}

// code codes which completion words are free.
func (w *Words) code(c *coder) {
	numbers(c, &w.Free)
	number(c, &w.Next)
}

// Object is an object for which the program has a handle or an address.
type Object struct {
	// ID is the handle or, for memory, the address.
	ID   uint64
	Kind abi.Kind
	// Owner is the ID of the parent, which destroys this object with itself; 0 for none.
	Owner uint64
	// State is the kind's state.
	State State
}

// State is the saved state of an object; each kind has its own type.
type State interface{ code(c *coder) }

// code codes an object; its kind decides the type of State when it is read.
func (o *Object) code(c *coder) {
	number(c, &o.Kind)
	number(c, &o.ID)
	number(c, &o.Owner)
	if c.reading && c.err == nil {
		if o.State = newState(o.Kind); o.State == nil {
			c.fail("unknown object kind %v", o.Kind)
		}
	}
	if c.err == nil {
		o.State.code(c)
	}
}

// code codes the session after the header.
func (s *Session) code(c *coder) {
	list(c, &s.Images, func(c *coder, image *[]byte) { c.shared(image) })
	number(c, &s.Made)
	number(c, &s.Completed)
	numbers(c, &s.Handles)
	number(c, &s.LastCapture)
	number(c, &s.LastCallback)
	s.Words.code(c)
	list(c, &s.Devices, func(c *coder, d *Device) { d.code(c) })
	list(c, &s.Objects, func(c *coder, o *Object) { o.code(c) })
	if c.version >= 2 {
		list(c, &s.Reservations, func(c *coder, r *Reservation) { r.code(c) })
	}
	if c.version >= 3 {
		codeID(c, &s.Exporter)
	}
}

// Encode encodes a session. It fails for a session that Decode would refuse.
func Encode(s *Session) ([]byte, error) {
	size := 4096 + 64*len(s.Objects)
	for _, image := range s.Images {
		size += len(image) + 8
	}
	c := &coder{out: append(make([]byte, 0, size), magic...)}
	c.version = Version
	number(c, &c.version)
	s.code(c)
	return c.out, c.err
}

// Decode decodes a session. Images share memory with data. It returns ErrFormat or ErrVersion.
func Decode(data []byte) (*Session, error) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return nil, fmt.Errorf("%w: wrong magic", ErrDamaged)
	}
	c := &coder{reading: true, in: data[len(magic):]}
	if number(c, &c.version); c.err == nil && (c.version < 1 || c.version > Version) {
		return nil, fmt.Errorf("%w: version %d, newest known is %d", ErrVersion, c.version, Version)
	}
	s := &Session{}
	s.code(c)
	if c.err == nil && len(c.in) > 0 {
		c.fail("%d bytes after the end", len(c.in))
	}
	if c.err != nil {
		return nil, c.err
	}
	return s, nil
}

// codeRange codes a range: address, then size.
func codeRange(c *coder, r *gpu.Range) {
	number(c, &r.Address)
	number(c, &r.Bytes)
}
