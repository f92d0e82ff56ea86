package wire

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrNotServed is returned when the program did not do a requested copy.
var ErrNotServed = errors.New("the program did not serve the copy")

// Slots answers waiting threads of the program. It is safe for concurrent use on different slots. A
// well-behaved program has at most one call in flight per slot.
type Slots struct {
	file   *File
	closed atomic.Bool

	mu sync.Mutex // guards the bounce area
}

// Slots returns the file's reply slots.
func (f *File) Slots() *Slots { return &Slots{file: f} }

func (s *Slots) state(slot uint32) *atomic.Uint32 {
	return s.file.Word32(SlotsOffset + int(slot)*SlotBytes)
}

// Reply completes the call of a waiting thread. Data that does not fit is truncated; no call has
// that much.
func (s *Slots) Reply(slot uint32, sequence uint64, result abi.Result, data []byte) {
	area := s.file.Region(SlotsOffset+int(slot)*SlotBytes, SlotBytes)
	copied := copy(area[SlotHeader:], data)
	// The program may read data after a reply without any. It must read zeros, not an older reply.
	clear(area[SlotHeader+copied : min(SlotBytes, SlotHeader+copied+replyMargin)])
	binary.LittleEndian.PutUint32(area[4:], uint32(result))
	binary.LittleEndian.PutUint64(area[8:], sequence)
	s.set(slot, SlotDone)
}

// replyMargin covers the scalars of the longest reply.
const replyMargin = 128

// set changes a slot's state and wakes its thread unless it spins.
func (s *Slots) set(slot, state uint32) {
	word := s.state(slot)
	if old := word.Swap(state); old != SlotIdle {
		Wake(word)
	}
}

// Close makes all waits for copies fail.
func (s *Slots) Close() { s.closed.Store(true) }

// Memory returns the program's memory, copied by the thread that waits on a slot. Offsets are
// addresses.
func (s *Slots) Memory(slot uint32) *SlotMemory { return &SlotMemory{s, slot} }

// SlotMemory reads and writes the program's memory through the bounce area. It is for programs
// whose memory the kernel does not let the worker access.
type SlotMemory struct {
	slots *Slots
	slot  uint32
}

// Directions of a copy, as the program sees them.
const (
	CopyOut = 0 // program to bounce area
	CopyIn  = 1 // bounce area to program
)

// ReadAt copies from the program.
func (m *SlotMemory) ReadAt(p []byte, address int64) (int, error) {
	return m.slots.move(m.slot, p, uint64(address), CopyOut)
}

// WriteAt copies into the program.
func (m *SlotMemory) WriteAt(p []byte, address int64) (int, error) {
	return m.slots.move(m.slot, p, uint64(address), CopyIn)
}

// Serving reports whether a requested copy of a thread of the program is in progress.
func (s *Slots) Serving() bool {
	for slot := range uint32(SlotCount) {
		if asked(s.state(slot).Load()) {
			return true
		}
	}
	return false
}
