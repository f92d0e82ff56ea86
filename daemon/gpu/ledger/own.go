package ledger

// A worker holds memory that its program knows nothing of: what checkpoints take. It is reserved as
// all memory is, and has a word of its own, because a program that asks what it holds may compare
// that with what it has allocated.

// ReserveOwn is Reserve for memory that the program knows nothing of.
func (l *Ledger) ReserveOwn(gpu, slot int, bytes uint64) error { return l.take(gpu, slot, bytes, true) }

// ReleaseOwn gives back what ReserveOwn has taken.
func (l *Ledger) ReleaseOwn(gpu, slot int, bytes uint64) { l.release(gpu, slot, bytes, true) }

// ProgramUsage is SlotUsage without what the program knows nothing of.
func (l *Ledger) ProgramUsage(gpu, slot int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.check(gpu, slot) != nil {
		return 0
	}
	return l.held(gpu, slot).Load()
}

// part is the word that counts the program's memory, or the worker's own.
func (l *Ledger) part(gpu, slot int, own bool) *word {
	if own {
		return l.own(gpu, slot)
	}
	return l.held(gpu, slot)
}

// all is what a slot has of a GPU.
func (l *Ledger) all(gpu, slot int) uint64 { return l.held(gpu, slot).Load() + l.own(gpu, slot).Load() }
