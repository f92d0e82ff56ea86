package ledger

// Memory that is freed is on no account any more, but a worker may have it still, until its GPUs
// rest. Who finds less on a GPU than the accounts say asks all that have such memory for it.

// Keep notes whether a slot has memory that is on no account any more.
func (l *Ledger) Keep(slot int, keeps bool) {
	word, bit := l.bit(keepsWord, slot)
	if keeps {
		word.Or(bit)
	} else {
		word.And(^bit)
	}
}

// Owed asks for what others keep of a GPU; false: nobody keeps anything.
func (l *Ledger) Owed(gpu, slot int) bool {
	for other := range l.seated() {
		if word, bit := l.bit(keepsWord, other); other != slot && word.Load()&bit != 0 {
			l.shortages(gpu).Add(1)
			return true
		}
	}
	return false
}

// Shortages counts how often somebody has asked for what others keep of a GPU.
func (l *Ledger) Shortages(gpu int) uint64 { return l.shortages(gpu).Load() }
