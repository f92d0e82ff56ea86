package ledger

// Freed memory is not charged any longer, but the worker's driver holds it until the GPUs are idle
// and it is reclaimed. A worker that finds less memory on a GPU than the ledger says requests that
// all others reclaim theirs.

// SetUnreclaimed notes whether a slot holds unreclaimed memory.
func (l *Ledger) SetUnreclaimed(slot int, keeps bool) {
	word, bit := l.bit(unreclaimedWord, slot)
	if keeps {
		word.Or(bit)
	} else {
		word.And(^bit)
	}
}

// RequestReclaim requests that other slots reclaim memory of a GPU. It reports whether any of them
// holds some.
func (l *Ledger) RequestReclaim(gpu, slot int) bool {
	for other := range l.usedSlots() {
		if word, bit := l.bit(unreclaimedWord, other); other != slot && word.Load()&bit != 0 {
			l.reclaimRequests(gpu).Add(1)
			return true
		}
	}
	return false
}

// ReclaimRequests returns how often reclaiming was requested on a GPU.
func (l *Ledger) ReclaimRequests(gpu int) uint64 { return l.reclaimRequests(gpu).Load() }
