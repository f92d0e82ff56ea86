package ledger

import (
	"errors"
	"time"
)

// A worker that waits for a session holds memory for nobody yet. Its slot is spare: where a
// reservation finds no room, such workers are asked to end, one after the other, as long as that
// helps. Who ends a slot's being spare, the worker because it was asked to or phosd because it
// gives it a session, does so by taking one bit away, so that only one of them does.

const (
	// roomTime is how long a worker that was asked may take to end. Giving a context back takes the
	// driver a while.
	roomTime = 5 * time.Second
	// roomLook is between two looks whether it has.
	roomLook = time.Millisecond
)

// Stand makes a slot spare, before anything is reserved for it.
func (l *Ledger) Stand(slot int) {
	wanted, bit := l.bit(wantedWord, slot)
	wanted.And(^bit)
	spare, bit := l.bit(spareWord, slot)
	spare.Or(bit)
}

// Claim ends a slot's being spare. It is false for one that was not, or is no longer: its worker
// ends.
func (l *Ledger) Claim(slot int) bool {
	spare, bit := l.bit(spareWord, slot)
	return spare.And(^bit)&bit != 0
}

// AwaitWanted waits until the memory of a spare slot is needed and claims the slot; false: it is
// not spare any more. It keeps a thread.
func (l *Ledger) AwaitWanted(slot int) bool {
	spare, bit := l.bit(spareWord, slot)
	wanted, _ := l.bit(wantedWord, slot)
	for {
		seen := l.calls()
		switch {
		case spare.Load()&bit == 0:
			return false
		case wanted.Load()&bit != 0:
			return l.Claim(slot)
		}
		l.sleep(seen)
	}
}

// Wake has everybody look who is in AwaitWanted.
func (l *Ledger) Wake() { l.call() }

// makeRoom asks one spare slot for its memory and waits for it; false: there is none, or all
// together do not have enough.
func (l *Ledger) makeRoom(full *FullError, slot int) bool {
	chosen, spareBytes := -1, uint64(0)
	for other := range l.seated() {
		spare, bit := l.bit(spareWord, other)
		held := l.all(full.GPU, other)
		if other == slot || held == 0 || spare.Load()&bit == 0 {
			continue
		}
		chosen, spareBytes = other, spareBytes+held
	}
	if chosen < 0 || full.Bytes > full.Capacity || full.Used-min(full.Used, spareBytes) > full.Capacity-full.Bytes {
		return false
	}
	wanted, bit := l.bit(wantedWord, chosen)
	wanted.Or(bit)
	l.call()
	for begun := time.Now(); time.Since(begun) < roomTime; time.Sleep(roomLook) { //nolint:forbidigo // another process decides, and tells nobody
		if l.all(full.GPU, chosen) == 0 {
			return true
		}
	}
	return false
}

// Reserve takes bytes of a GPU for a slot, or returns a *FullError. Workers that wait for a session
// end for it, unless this is one of them.
func (l *Ledger) Reserve(gpu, slot int, bytes uint64) error { return l.take(gpu, slot, bytes, false) }

func (l *Ledger) take(gpu, slot int, bytes uint64, own bool) error {
	for {
		err := l.reserve(gpu, slot, bytes, own)
		var full *FullError
		if !errors.As(err, &full) {
			return err
		}
		if spare, bit := l.bit(spareWord, slot); spare.Load()&bit != 0 || !l.makeRoom(full, slot) {
			return err
		}
	}
}

// Room reports how much of a GPU a reservation can have, and the whole: what workers have that wait
// for a session counts as free.
func (l *Ledger) Room(gpu int) (free, capacity uint64) {
	used, capacity := l.Usage(gpu)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, 0
	}
	for slot := range l.seated() {
		if spare, bit := l.bit(spareWord, slot); spare.Load()&bit != 0 {
			used -= min(used, l.all(gpu, slot))
		}
	}
	return capacity - used, capacity
}
