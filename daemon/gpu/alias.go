package gpu

// Aliaser shows memory at further addresses: what a program does by mapping one allocation several
// times.
type Aliaser interface {
	// Alias shows a range of home's at address as well: at a chunk boundary of a window, where nothing
	// else is. home is this memory or another device's of the same backend; the range is what one Map
	// backed, or the beginning of it. A load or a store by either address reaches the same bytes and
	// marks the chunk at home. Without write, a store by this one is a fault. Alias of what is shown
	// already changes only the right to write.
	Alias(address uint64, home Memory, r Range, write bool) error
	// Unalias takes one Alias back, by its first address; home keeps its content. Touching it is a
	// fault afterwards.
	Unalias(address uint64) error
}
