package gpu

// Aliaser shows memory at further addresses: what a program does by mapping one allocation several times.
type Aliaser interface {
	// Alias shows the chunks of a range of home, which are mapped, at address as well, a chunk boundary where nothing else
	// is. home is this memory or another device's of the same backend. A load or a store by either address reaches the same
	// bytes and marks the chunk at home. Without write, a store by this one is a fault. Alias of what is shown already
	// changes only the right to write.
	Alias(address uint64, home Memory, r Range, write bool) error
	// Unalias takes one Alias back, by its first address; home keeps its content. Touching it is a fault afterwards.
	Unalias(address uint64) error
}
