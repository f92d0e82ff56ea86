package virtual

import (
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Access is a GPU's access to mapped memory, as CUmemAccess_flags.
type Access uint8

// Access rights of a GPU.
const (
	None      Access = 0
	Read      Access = 1
	ReadWrite Access = 3
)

// Mapping is an allocation, or the beginning of one, mapped at reserved addresses.
type Mapping struct {
	gpu.Range
	// Allocation is the handle of the mapped allocation; the program may have released it.
	Allocation abi.Handle
	// Access is indexed by GPU.
	Access []Access
}

// Reservation is a range of addresses that the program reserved.
type Reservation struct {
	// Range has the requested size; whole chunks are taken.
	gpu.Range
	// Mappings are sorted by address.
	Mappings []*Mapping
}

// Space is the virtual memory state of one program. The session's lock guards it.
type Space struct {
	gpus         int
	program      []part         // by GPU
	guests       []part         // by GPU
	reservations []*Reservation // by address
}

// part is a range of addresses with an allocator.
type part struct {
	gpu.Range
	*heap.Addresses
}

// newParts returns an empty allocator for each window.
func newParts(windows []gpu.Range) (out []part) {
	for _, window := range windows {
		out = append(out, part{window, heap.NewAddresses(window)})
	}
	return out
}

// New returns a space without reservations. windows are the ranges for the program's reservations,
// by GPU. guests are ranges in which the program cannot reserve: they are kept for memory of other
// processes.
func New(windows, guests []gpu.Range) *Space {
	return &Space{gpus: len(windows), program: newParts(windows), guests: newParts(guests)}
}

// invalid returns an error with abi.InvalidValue.
func invalid(op, format string, args ...any) error {
	return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: fmt.Sprintf(format, args...)}
}

// Reserve reserves addresses: at the requested address if that is free, otherwise in the GPU's
// window.
func (s *Space) Reserve(device int, bytes, align, fixed uint64) (*Reservation, error) {
	const op, pageBytes = "reserve addresses", 4096
	if bytes == 0 || bytes%pageBytes != 0 || fixed%pageBytes != 0 {
		return nil, invalid(op, "size %#x, address %#x: not whole pages", bytes, fixed)
	}
	r := gpu.Range{Address: fixed, Bytes: bytes}
	if fixed != 0 && align&(align-1) == 0 && (align == 0 || fixed%align == 0) && s.reserveIn(s.program, r) {
		return s.reservationAt(fixed), nil
	}
	taken, err := s.program[device].Take(bytes, align)
	if err != nil {
		return nil, err
	}
	return s.add(gpu.Range{Address: taken.Address, Bytes: bytes}), nil
}

// ReserveImport reserves addresses for whole chunks of another process.
func (s *Space) ReserveImport(device int, bytes uint64) (gpu.Range, error) {
	taken, err := s.program[device].Take(bytes, 0)
	if err != nil {
		taken, err = s.guests[device].Take(bytes, 0)
	}
	if err != nil {
		return gpu.Range{}, err
	}
	return s.add(taken).Range, nil
}

// ReserveAt reserves exactly these addresses. It fails with abi.InvalidValue if they are not free.
func (s *Space) ReserveAt(r gpu.Range) error {
	if s.reserveIn(s.program, r) || s.reserveIn(s.guests, r) {
		return nil
	}
	return invalid("reserve addresses", "%#x+%#x is not free", r.Address, r.Bytes)
}

// reserveIn reserves a range in the part that contains it, and reports whether it was free.
func (s *Space) reserveIn(parts []part, r gpu.Range) bool {
	for _, p := range parts {
		if p.Contains(r) && r.Bytes > 0 && p.TakeAt(taken(r)) {
			s.add(r)
			return true
		}
	}
	return false
}

// taken returns a reservation's range, rounded up to whole chunks.
func taken(r gpu.Range) gpu.Range {
	r.Bytes = (r.Bytes + gpu.ChunkBytes - 1) &^ (gpu.ChunkBytes - 1)
	return r
}

func (s *Space) add(r gpu.Range) *Reservation {
	at := sort.Search(len(s.reservations), func(i int) bool { return s.reservations[i].Address >= r.Address })
	added := &Reservation{Range: r}
	s.reservations = slices.Insert(s.reservations, at, added)
	return added
}

// reservationAt returns the reservation that contains an address, or nil.
func (s *Space) reservationAt(address uint64) *Reservation {
	at := sort.Search(len(s.reservations), func(i int) bool { return s.reservations[i].End() > address })
	if at < len(s.reservations) && s.reservations[at].Address <= address {
		return s.reservations[at]
	}
	return nil
}

// Free ends a reservation, which must be named exactly and have nothing mapped.
func (s *Space) Free(r gpu.Range) error {
	found := s.reservationAt(r.Address)
	if found == nil || found.Range != r {
		return invalid("free addresses", "%#x+%#x is not a reservation", r.Address, r.Bytes)
	}
	if len(found.Mappings) > 0 {
		return invalid("free addresses", "memory is mapped at %#x", found.Mappings[0].Address)
	}
	for _, p := range slices.Concat(s.program, s.guests) {
		if p.Contains(r) {
			p.Give(taken(r))
		}
	}
	s.reservations = slices.DeleteFunc(s.reservations, func(other *Reservation) bool { return other == found })
	return nil
}

// Map maps an allocation at reserved addresses that have no mapping. At first no GPU has access.
func (s *Space) Map(r gpu.Range, allocation abi.Handle) (*Mapping, error) {
	const op = "map memory"
	if r.Bytes == 0 || (r.Address|r.Bytes)%gpu.ChunkBytes != 0 {
		return nil, invalid(op, "%#x+%#x is not whole chunks", r.Address, r.Bytes)
	}
	found := s.reservationAt(r.Address)
	if found == nil || !found.Contains(r) {
		return nil, invalid(op, "%#x+%#x is not reserved", r.Address, r.Bytes)
	}
	at := found.first(r.Address)
	if at < len(found.Mappings) && found.Mappings[at].Address < r.End() {
		return nil, invalid(op, "%#x is mapped", found.Mappings[at].Address)
	}
	m := &Mapping{Range: r, Allocation: allocation, Access: make([]Access, s.gpus)}
	found.Mappings = slices.Insert(found.Mappings, at, m)
	return m, nil
}

// first returns the index of the first mapping that ends after an address.
func (r *Reservation) first(address uint64) int {
	return sort.Search(len(r.Mappings), func(i int) bool { return r.Mappings[i].End() > address })
}

// Whole returns the mappings of a range, which must be whole mappings without gaps.
func (s *Space) Whole(r gpu.Range) ([]*Mapping, error) {
	found := s.reservationAt(r.Address)
	if found == nil || r.Bytes == 0 || !found.Contains(r) {
		return nil, invalid("find mappings", "%#x+%#x is not in one reservation", r.Address, r.Bytes)
	}
	first := found.first(r.Address)
	next := r.Address
	for end := first; end < len(found.Mappings) && found.Mappings[end].Address == next; {
		next = found.Mappings[end].End()
		if end++; next == r.End() {
			return found.Mappings[first:end:end], nil
		}
	}
	return nil, invalid("find mappings", "%#x+%#x is not whole mappings without gaps", r.Address, r.Bytes)
}

// Unmap removes mappings that Whole returned.
func (s *Space) Unmap(mappings []*Mapping) {
	for _, m := range mappings {
		if found := s.reservationAt(m.Address); found != nil {
			found.Mappings = slices.DeleteFunc(slices.Clone(found.Mappings), func(other *Mapping) bool { return other == m })
		}
	}
}

// At returns the mapping that contains an address, or nil.
func (s *Space) At(address uint64) *Mapping {
	found := s.reservationAt(address)
	if found == nil {
		return nil
	}
	if at := found.first(address); at < len(found.Mappings) && found.Mappings[at].Address <= address {
		return found.Mappings[at]
	}
	return nil
}

// Covers reports whether memory is mapped at every address of a range.
func (s *Space) Covers(r gpu.Range) bool {
	found := s.reservationAt(r.Address)
	if found == nil || !found.Contains(r) {
		return false
	}
	next := r.Address
	for at := found.first(next); at < len(found.Mappings) && found.Mappings[at].Address <= next; at++ {
		if next = found.Mappings[at].End(); next >= r.End() {
			return true
		}
	}
	return false
}

// Reservations yields all reservations by address.
func (s *Space) Reservations() iter.Seq[*Reservation] { return slices.Values(s.reservations) }

// Mappings yields all mappings by address.
func (s *Space) Mappings() iter.Seq[*Mapping] {
	return func(yield func(*Mapping) bool) {
		for _, r := range s.reservations {
			for _, m := range r.Mappings {
				if !yield(m) {
					return
				}
			}
		}
	}
}
