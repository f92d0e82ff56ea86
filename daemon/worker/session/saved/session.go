package saved

import (
	"bytes"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Version is the version of the encoding that is written. All older ones are read. The second added
// reservations, blocks and registered memory, the third memory shared with other processes and
// peers, the fourth blocks that are shared, the fifth variables that the backend has placed, the
// sixth in which order code came and went where it does so, the seventh attributes of launches in
// graphs.
const Version = 7

// magic begins every saved session.
const magic = "phos session\n"

// Session is everything but the content of memory.
type Session struct {
	// Images is code, one copy of each content; objects name it by its place here.
	Images [][]byte
	// Made and Completed count calls.
	Made, Completed uint64
	// Handles is the last index given out of each kind of handle: none is ever given out again.
	Handles []uint32
	// LastCapture and LastCallback are ids given out last.
	LastCapture, LastCallback uint64
	Words                     Words
	Devices                   []Device
	// Objects are the living ones, in the order of creation.
	Objects []Object
	// Reservations are by address.
	Reservations []Reservation
	// Exporter is the session's name for those who share its memory; zero for none.
	Exporter ipc.ID
}

// Words is which completion words of events are free: those in Free, last to first, then those from
// Next on.
type Words struct {
	Free []uint32
	Next uint32
}

func (w *Words) code(c *coder) {
	numbers(c, &w.Free)
	number(c, &w.Next)
}

// Object is one thing that the program has a handle or an address of.
type Object struct {
	// ID is the handle, or for memory the address.
	ID   uint64
	Kind abi.Kind
	// Owner is the ID of the object that takes this one along when it is destroyed; 0 for none.
	Owner uint64
	// State is that of its kind.
	State State
}

// State is what is kept of an object of some kind.
type State interface{ code(c *coder) }

func (o *Object) code(c *coder) {
	number(c, &o.Kind)
	number(c, &o.ID)
	number(c, &o.Owner)
	if c.reading && c.err == nil {
		if o.State = newState(o.Kind); o.State == nil {
			c.fail("objects of %v are unknown", o.Kind)
		}
	}
	if c.err == nil {
		o.State.code(c)
	}
}

// code walks over the session behind the header.
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

// Encode writes a session down. It fails when the session is one that Decode would refuse.
func Encode(s *Session) ([]byte, error) {
	room := 4096 + 64*len(s.Objects)
	for _, image := range s.Images {
		room += len(image) + 8
	}
	c := &coder{out: append(make([]byte, 0, room), magic...)}
	c.version = Version
	number(c, &c.version)
	s.code(c)
	return c.out, c.err
}

// Decode reads what Encode wrote. Images share their memory with data. The error is ErrDamaged or
// ErrVersion.
func Decode(data []byte) (*Session, error) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return nil, fmt.Errorf("%w: it does not begin like one", ErrDamaged)
	}
	c := &coder{reading: true, in: data[len(magic):]}
	if number(c, &c.version); c.err == nil && (c.version < 1 || c.version > Version) {
		return nil, fmt.Errorf("%w: %d, the newest known is %d", ErrVersion, c.version, Version)
	}
	s := &Session{}
	s.code(c)
	if c.err == nil && len(c.in) > 0 {
		c.fail("%d bytes are left over", len(c.in))
	}
	if c.err != nil {
		return nil, c.err
	}
	return s, nil
}

func codeRange(c *coder, r *gpu.Range) {
	number(c, &r.Address)
	number(c, &r.Bytes)
}
