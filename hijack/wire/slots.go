package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrNotServed means that the program did not do a copy it was asked for.
var ErrNotServed = errors.New("the program did not serve the copy")

// Slots answers waiting threads of the program. It is safe for concurrent use; two goroutines must not answer one
// slot at a time, which a well-behaved program does not ask for.
type Slots struct {
	file   *File
	closed atomic.Bool

	mu sync.Mutex // the bounce area
}

// Slots are the file's reply slots.
func (f *File) Slots() *Slots { return &Slots{file: f} }

func (s *Slots) state(slot uint32) *atomic.Uint32 {
	return s.file.Word32(SlotsOffset + int(slot)*SlotBytes)
}

// Reply completes the call that a thread waits for. Data that does not fit is cut; no call has that much.
func (s *Slots) Reply(slot uint32, sequence uint64, result abi.Result, data []byte) {
	area := s.file.Region(SlotsOffset+int(slot)*SlotBytes, SlotBytes)
	copied := copy(area[SlotHeader:], data)
	// A reply without data may be read where data is expected: zeros, not an older reply.
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

// Close ends all waiting for copies.
func (s *Slots) Close() { s.closed.Store(true) }

// Memory is the program's memory as far as the thread that waits on a slot copies it. Offsets are addresses.
func (s *Slots) Memory(slot uint32) *SlotMemory { return &SlotMemory{s, slot} }

// SlotMemory reads and writes the program's memory through the bounce area, for where the kernel does not let the
// worker do it.
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

// bouncePiece is how much of the bounce area one request uses. Two of them fit a core's cache and alternate: while the
// program's thread copies one piece, the worker copies the other.
const bouncePiece = 256 << 10

func (s *Slots) move(slot uint32, p []byte, address uint64, direction uint64) (int, error) {
	if slot >= SlotCount {
		return 0, fmt.Errorf("copy %d bytes at %#x: %w: no thread waits", len(p), address, ErrNotServed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if direction == CopyOut {
		return s.moveOut(slot, p, address)
	}
	return s.moveIn(slot, p, address)
}

// moveOut fetches each piece while the one before it is copied out of the bounce area.
func (s *Slots) moveOut(slot uint32, p []byte, address uint64) (int, error) {
	for at, before := 0, 0; ; {
		piece := p[at:min(len(p), at+bouncePiece)]
		if len(piece) > 0 {
			s.ask(slot, CopyOut, address+uint64(at), piece, s.side(at))
		}
		copy(p[before:at], s.file.Region(BounceOffset+s.side(before), bouncePiece))
		if len(piece) == 0 {
			return len(p), nil
		}
		if err := s.served(slot, piece, address); err != nil {
			return at, err
		}
		before, at = at, at+len(piece)
	}
}

// moveIn fills each piece of the bounce area while the program takes the one before it.
func (s *Slots) moveIn(slot uint32, p []byte, address uint64) (int, error) {
	for at, before := 0, 0; ; {
		piece := p[at:min(len(p), at+bouncePiece)]
		copy(s.file.Region(BounceOffset+s.side(at), bouncePiece), piece)
		if at > before {
			if err := s.served(slot, p[before:at], address); err != nil {
				return before, err
			}
		}
		if len(piece) == 0 {
			return len(p), nil
		}
		s.ask(slot, CopyIn, address+uint64(at), piece, s.side(at))
		before, at = at, at+len(piece)
	}
}

// A piece takes some ten microseconds, about as long as it takes to sleep and be woken: the wait for one is spent
// looking, after yieldTime letting others have the core, and sleeping only after pieceTime.
const (
	yieldTime = 3 * time.Microsecond
	pieceTime = time.Millisecond
)

// side is the offset in the bounce area of the piece that begins at byte at.
func (s *Slots) side(at int) int { return at / bouncePiece % 2 * bouncePiece }

// ask asks the waiting thread for the copy of one piece.
func (s *Slots) ask(slot uint32, direction, address uint64, piece []byte, offset int) {
	area := s.file.Region(SlotsOffset+int(slot)*SlotBytes+SlotHeader, SlotDataBytes)
	for i, word := range []uint64{direction, address, uint64(len(piece)), uint64(offset)} {
		binary.LittleEndian.PutUint64(area[8*i:], word)
	}
	s.set(slot, SlotService)
}

// served waits until what was asked for is done. address is where the whole copy begins, for the error.
func (s *Slots) served(slot uint32, piece []byte, address uint64) error {
	state := s.state(slot)
	start := time.Now()
	for state.Load() == SlotService {
		if s.closed.Load() {
			return fmt.Errorf("copy %d bytes at %#x: %w", len(piece), address, ErrNotServed)
		}
		switch waited := time.Since(start); {
		case waited < yieldTime:
			pause()
		case waited < pieceTime:
			yield() // on a busy machine the program's thread may need this very core
		default:
			SleepOn(state, SlotService, sleepLimit/10)
		}
	}
	switch got := state.Load(); {
	case got == SlotAbsent:
		return fmt.Errorf("copy %d bytes at %#x: %w: not all of it is memory of the program", len(piece), address, abi.InvalidValue)
	case got != SlotServed:
		return fmt.Errorf("copy %d bytes at %#x: %w: slot state %d", len(piece), address, ErrNotServed, got)
	}
	return nil
}

// Serving reports whether a thread of the program is asked for a copy that it has not done yet.
func (s *Slots) Serving() bool {
	for slot := range uint32(SlotCount) {
		if s.state(slot).Load() == SlotService {
			return true
		}
	}
	return false
}
