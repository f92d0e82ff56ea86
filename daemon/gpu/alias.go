package gpu

// Aliaser maps memory at further addresses, for programs that map one allocation several times.
type Aliaser interface {
	// Alias maps a range of home at address as well. address must be a chunk boundary of a window
	// with nothing mapped. home is this memory or that of another device of the same backend. The
	// range is what one Map backed, or its beginning. Loads and stores by either address reach the
	// same bytes; a store makes the chunk dirty at home. If write is false, a store through the
	// alias is a fault. Alias of an existing alias only changes the write permission.
	Alias(address uint64, home Memory, r Range, write bool) error
	// Unalias removes the alias that begins at address; home keeps its content. Any later access to
	// the alias is a fault.
	Unalias(address uint64) error
}
