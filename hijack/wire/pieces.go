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

// slotCopy is one copy between this process and the program's memory, through the bounce area. The
// program's thread copies one half of the way, this side the other.
type slotCopy struct {
	slots     *Slots
	slot      uint32
	here      []byte
	address   uint64 // in the program
	direction uint64
}

// move copies p from or to the program's memory, by the thread that waits on the slot.
func (s *Slots) move(slot uint32, p []byte, address uint64, direction uint64) (int, error) {
	if slot >= SlotCount {
		return 0, fmt.Errorf("copy %d bytes at %#x: %w: no thread is waiting", len(p), address, ErrNotServed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := slotCopy{slots: s, slot: slot, here: p, address: address, direction: direction}
	if s.file.Word32(WordCopies).Load() == CopiesInPieces {
		return h.copyConcurrently()
	}
	return h.copyInTurns()
}

// word returns a word of the slot.
func (h *slotCopy) word(offset int) *atomic.Uint32 {
	return h.slots.file.Word32(SlotsOffset + int(h.slot)*SlotBytes + offset)
}

// copyConcurrently copies in pieces: the program and this side copy different pieces at the same
// time.
func (h *slotCopy) copyConcurrently() (int, error) {
	here, there := h.word(SlotWorkerPieces), h.word(SlotProgramPieces)
	here.Store(0)
	there.Store(0)
	h.ask(SlotPieces, h.here, 0)
	var core coreSeparator
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer core.restore()
	for n := uint32(0); int(n)*BouncePiece < len(h.here); n++ {
		piece := h.here[int(n)*BouncePiece : min(len(h.here), int(n+1)*BouncePiece)]
		bounce := h.slots.file.Region(BounceOffset+int(n%BouncePieces)*BouncePiece, len(piece))
		if err := h.await(&core, func() bool { return h.mayCopy(n, there.Load()) }); err != nil {
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

// mayCopy reports whether this side may copy piece n, given how many pieces the program has done.
func (h *slotCopy) mayCopy(n, done uint32) bool {
	if h.direction == CopyOut {
		return done > n
	}
	return n < done+BouncePieces
}

// copyInTurns copies in turns: the program one half, then this side the other. A libphos without
// CopiesInPieces needs that.
func (h *slotCopy) copyInTurns() (int, error) {
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

// ask asks the waiting thread to copy a part, which begins at bytes after the start.
func (h *slotCopy) ask(how uint32, part []byte, at int) {
	area := h.slots.file.Region(SlotsOffset+int(h.slot)*SlotBytes+SlotHeader, SlotDataBytes)
	for i, word := range []uint64{h.direction, h.address + uint64(at), uint64(len(part)), 0} {
		binary.LittleEndian.PutUint64(area[8*i:], word)
	}
	h.slots.set(h.slot, how)
}

// asked reports whether a state asks the program to copy.
func asked(state uint32) bool { return state == SlotService || state == SlotPieces }

// served reports whether the program has done the requested copy.
func (h *slotCopy) served() bool { return h.slots.state(h.slot).Load() == SlotServed }

// A piece takes about 7 us, as long as a sleep and a wake-up. So the wait for a piece spins, yields
// the core after yieldTime, and sleeps only after pieceTime.
const (
	yieldTime = 3 * time.Microsecond
	pieceTime = time.Millisecond
)

// await waits until a condition holds that the program causes. It fails if the program cannot cause
// it any longer. core is nil if the two sides do not copy at the same time.
func (h *slotCopy) await(core *coreSeparator, holds func() bool) error {
	state := h.slots.state(h.slot)
	for start := time.Now(); !holds(); {
		// The condition may have become true just before the state changed.
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
			core.leave(h.word(SlotProgramCore).Load())
			yield() // on a busy machine the program's thread may need this very core
		default:
			SleepOn(state, state.Load(), pieceTime)
		}
	}
	return nil
}

// unserved returns the error of a slot whose thread no longer copies.
func (h *slotCopy) unserved(state uint32) error {
	if state == SlotAbsent {
		return fmt.Errorf("%w: part of the range is not mapped in the program", h.failed(abi.InvalidValue))
	}
	return fmt.Errorf("%w: slot state %d", h.failed(ErrNotServed), state)
}

// failed returns an error with the range of the copy.
func (h *slotCopy) failed(why error) error {
	return fmt.Errorf("copy %d bytes at %#x: %w", len(h.here), h.address, why)
}

// coreSeparator keeps this thread off the core on which the program's thread copies. The scheduler
// often wakes both threads on one core and does not separate them while they yield to each other.
// Then a copy takes twice as long as on two cores.
type coreSeparator struct {
	moved, failed bool
	before        unix.CPUSet
}

// leave moves this thread to another core if it runs on the given one. It does nothing if a is nil.
func (a *coreSeparator) leave(core uint32) {
	if a == nil || a.failed || currentCore() != core {
		return
	}
	if !a.moved && unix.SchedGetaffinity(0, &a.before) != nil {
		a.failed = true
		return
	}
	others := a.before
	others.Clear(int(core))
	if others.Count() == 0 || unix.SchedSetaffinity(0, &others) != nil {
		a.failed = true
		return
	}
	a.moved = true
}

// restore restores the thread's affinity.
func (a *coreSeparator) restore() {
	if a.moved {
		_ = unix.SchedSetaffinity(0, &a.before)
	}
}
