package wire

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
)

// halves is one copy between here and the program's memory, by way of the bounce area: the
// program's thread does one half of each piece, this side the other.
type halves struct {
	slots     *Slots
	slot      uint32
	here      []byte
	address   uint64 // in the program
	direction uint64
}

func (s *Slots) move(slot uint32, p []byte, address uint64, direction uint64) (int, error) {
	if slot >= SlotCount {
		return 0, fmt.Errorf("copy %d bytes at %#x: %w: no thread waits", len(p), address, ErrNotServed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := halves{slots: s, slot: slot, here: p, address: address, direction: direction}
	if s.file.Word32(WordCopies).Load() == CopiesInPieces {
		return h.together()
	}
	return h.byTurns()
}

// word is one of the slot's.
func (h *halves) word(offset int) *atomic.Uint32 {
	return h.slots.file.Word32(SlotsOffset + int(h.slot)*SlotBytes + offset)
}

// together has the program copy pieces while this side copies others.
func (h *halves) together() (int, error) {
	here, there := h.word(SlotWorkerPieces), h.word(SlotProgramPieces)
	here.Store(0)
	there.Store(0)
	h.ask(SlotPieces, h.here, 0)
	var core apart
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer core.end()
	for n := uint32(0); int(n)*BouncePiece < len(h.here); n++ {
		piece := h.here[int(n)*BouncePiece : min(len(h.here), int(n+1)*BouncePiece)]
		bounce := h.slots.file.Region(BounceOffset+int(n%BouncePieces)*BouncePiece, len(piece))
		if err := h.await(&core, func() bool { return h.mayDo(n, there.Load()) }); err != nil {
			return int(n) * BouncePiece, err
		}
		if h.direction == CopyOut {
			copy(piece, bounce)
		} else {
			copy(bounce, piece)
		}
		here.Store(n + 1)
	}
	return len(h.here), h.await(&core, h.served)
}

// mayDo reports whether piece n is this side's to do, now that the program has done so many.
func (h *halves) mayDo(n, done uint32) bool {
	if h.direction == CopyOut {
		return done > n
	}
	return n < done+BouncePieces
}

// byTurns has the program copy a piece, then this side, as a libphos without CopiesInPieces needs
// it.
func (h *halves) byTurns() (int, error) {
	for at := 0; at < len(h.here); {
		piece := h.here[at:min(len(h.here), at+BounceBytes)]
		bounce := h.slots.file.Region(BounceOffset, len(piece))
		if h.direction == CopyIn {
			copy(bounce, piece)
		}
		h.ask(SlotService, piece, at)
		if err := h.await(nil, h.served); err != nil {
			return at, err
		}
		if h.direction == CopyOut {
			copy(piece, bounce)
		}
		at += len(piece)
	}
	return len(h.here), nil
}

// ask asks the waiting thread for its half of the copy of a part, which begins so many bytes behind
// the whole.
func (h *halves) ask(how uint32, part []byte, at int) {
	area := h.slots.file.Region(SlotsOffset+int(h.slot)*SlotBytes+SlotHeader, SlotDataBytes)
	for i, word := range []uint64{h.direction, h.address + uint64(at), uint64(len(part)), 0} {
		binary.LittleEndian.PutUint64(area[8*i:], word)
	}
	h.slots.set(h.slot, how)
}

// asked reports whether a state asks the program to copy.
func asked(state uint32) bool { return state == SlotService || state == SlotPieces }

// served reports whether the program is done with what it was asked for.
func (h *halves) served() bool { return h.slots.state(h.slot).Load() == SlotServed }

// A piece takes some seven microseconds, about as long as it takes to sleep and be woken: the wait
// for one is spent looking, after yieldTime letting others have the core, and sleeping only after
// pieceTime.
const (
	yieldTime = 3 * time.Microsecond
	pieceTime = time.Millisecond
)

// await waits for something that the program does; an error says that it never will. core is nil
// where both sides do not copy at the same time.
func (h *halves) await(core *apart, holds func() bool) error {
	state := h.slots.state(h.slot)
	for start := time.Now(); !holds(); {
		// What the program did last may have come before it ended.
		if seen := state.Load(); !asked(seen) && !holds() {
			return h.unserved(seen)
		}
		if h.slots.closed.Load() {
			return h.failed(ErrNotServed)
		}
		switch waited := time.Since(start); {
		case waited < yieldTime:
			pause()
		case waited < pieceTime:
			core.from(h.word(SlotProgramCore).Load())
			yield() // on a busy machine the program's thread may need this very core
		default:
			SleepOn(state, state.Load(), pieceTime)
		}
	}
	return nil
}

// unserved is the error of a slot whose thread copies no more.
func (h *halves) unserved(state uint32) error {
	if state == SlotAbsent {
		return fmt.Errorf("%w: not all of it is memory of the program", h.failed(abi.InvalidValue))
	}
	return fmt.Errorf("%w: slot state %d", h.failed(ErrNotServed), state)
}

func (h *halves) failed(why error) error {
	return fmt.Errorf("copy %d bytes at %#x: %w", len(h.here), h.address, why)
}

// apart keeps this thread off the core that the program's thread copies on. The scheduler likes to
// wake one beside the other, and moves neither away while each lets the other have the core in
// turns: both halves of a copy then take twice as long as they would on two cores.
type apart struct {
	moved, cannot bool
	before        unix.CPUSet
}

// from moves this thread away if it is on the core that is named. Nil does nothing.
func (a *apart) from(core uint32) {
	if a == nil || a.cannot || currentCore() != core {
		return
	}
	if !a.moved && unix.SchedGetaffinity(0, &a.before) != nil {
		a.cannot = true
		return
	}
	others := a.before
	others.Clear(int(core))
	if others.Count() == 0 || unix.SchedSetaffinity(0, &others) != nil {
		a.cannot = true
		return
	}
	a.moved = true
}

// end lets the thread be anywhere again.
func (a *apart) end() {
	if a.moved {
		_ = unix.SchedSetaffinity(0, &a.before)
	}
}
