package ledger

// A worker needs memory for checkpoints that is hidden from its program. It is reserved like all
// memory, but has a word of its own: a program may compare its usage with what it has allocated.

// ReserveOwn is Reserve for memory that is hidden from the program.
func (l *Ledger) ReserveOwn(gpu, slot int, bytes uint64) error {
	return l.reserveOrMakeRoom(gpu, slot, bytes, true)
}

// ReleaseOwn releases memory of ReserveOwn.
func (l *Ledger) ReleaseOwn(gpu, slot int, bytes uint64) { l.release(gpu, slot, bytes, true) }

// ProgramUsage is SlotUsage without hidden memory.
func (l *Ledger) ProgramUsage(gpu, slot int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(gpu, slot) != nil {
		return 0
	}
	return l.held(gpu, slot).Load()
}

// heldOrOwn returns the word for hidden memory if own is set, else the word for the program's
// memory.
func (l *Ledger) heldOrOwn(gpu, slot int, own bool) *word {
	if own {
		return l.own(gpu, slot)
	}
	return l.held(gpu, slot)
}

// total returns what a slot holds of a GPU in total.
func (l *Ledger) total(gpu, slot int) uint64 {
	return l.held(gpu, slot).Load() + l.own(gpu, slot).Load()
}
