package ledger

import (
	"errors"
	"time"
)

// A standby worker holds memory but has no session. Its slot has the standby bit. If a reservation
// finds no room, standby workers are asked to exit, one at a time, as long as that helps. Both a
// worker that exits and phosd, when it assigns a session, first claim the slot by clearing the bit,
// so only one of them succeeds.

const (
	// exitTimeout is how long a worker may take to exit. The driver needs a while to destroy a
	// context.
	exitTimeout = 5 * time.Second
	// pollInterval is the polling interval.
	pollInterval = time.Millisecond
)

// SetStandby makes a slot a standby slot, before anything is reserved for it.
func (l *Ledger) SetStandby(slot int) {
	wanted, bit := l.bit(wantedWord, slot)
	wanted.And(^bit)
	standby, bit := l.bit(standbyWord, slot)
	standby.Or(bit)
}

// ClaimStandby ends the standby state of a slot. It returns false if the slot was not in standby;
// its worker then exits.
func (l *Ledger) ClaimStandby(slot int) bool {
	standby, bit := l.bit(standbyWord, slot)
	return standby.And(^bit)&bit != 0
}

// AwaitStandbyRequest waits until the memory of a standby slot is needed, and claims the slot. It
// returns false if the slot is no longer in standby. It blocks an OS thread.
func (l *Ledger) AwaitStandbyRequest(slot int) bool {
	standby, bit := l.bit(standbyWord, slot)
	wanted, _ := l.bit(wantedWord, slot)
	for {
		seen := l.standbyRequests()
		switch {
		case standby.Load()&bit == 0:
			return false
		case wanted.Load()&bit != 0:
			return l.ClaimStandby(slot)
		}
		l.sleep(seen)
	}
}

// inStandby reports whether a slot is that of a standby worker.
func (l *Ledger) inStandby(slot int) bool {
	word, bit := l.bit(standbyWord, slot)
	return word.Load()&bit != 0
}

// WakeStandby makes all AwaitStandbyRequest calls check their slots.
func (l *Ledger) WakeStandby() { l.requestStandby() }

// makeRoom asks one standby worker to exit and waits for it. It returns false if there is none, or
// if all together hold too little.
func (l *Ledger) makeRoom(full *FullError, slot int) bool {
	chosen, standbyBytes := -1, uint64(0)
	for other := range l.usedSlots() {
		held := l.total(full.GPU, other)
		if other == slot || held == 0 || !l.inStandby(other) {
			continue
		}
		chosen, standbyBytes = other, standbyBytes+held
	}
	if chosen < 0 || full.Bytes > full.Capacity || full.Used-min(full.Used, standbyBytes) > full.Capacity-full.Bytes {
		return false
	}
	wanted, bit := l.bit(wantedWord, chosen)
	wanted.Or(bit)
	l.requestStandby()
	for begun := time.Now(); time.Since(begun) < exitTimeout; time.Sleep(pollInterval) { //nolint:forbidigo // no notification between processes
		if l.total(full.GPU, chosen) == 0 {
			return true
		}
	}
	return false
}

// Reserve charges bytes of a GPU to a slot. The error is that of reserve. Standby workers exit to
// make room for it, unless the slot itself is in standby.
func (l *Ledger) Reserve(gpu, slot int, bytes uint64) error {
	return l.reserveOrMakeRoom(gpu, slot, bytes, false)
}

// reserveOrMakeRoom is reserve with room made by standby workers.
func (l *Ledger) reserveOrMakeRoom(gpu, slot int, bytes uint64, own bool) error {
	for {
		err := l.reserve(gpu, slot, bytes, own)
		var full *FullError
		if !errors.As(err, &full) {
			return err
		}
		if l.inStandby(slot) || !l.makeRoom(full, slot) {
			return err
		}
	}
}

// Available returns how much of a GPU can be reserved, and its capacity. Memory of standby workers
// counts as free.
func (l *Ledger) Available(gpu int) (free, capacity uint64) {
	used, capacity := l.Usage(gpu)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, 0
	}
	for slot := range l.usedSlots() {
		if l.inStandby(slot) {
			used -= min(used, l.total(gpu, slot))
		}
	}
	return capacity - used, capacity
}
