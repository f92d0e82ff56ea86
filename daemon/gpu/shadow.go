package gpu

// Shadower puts copies of chunks aside in the device's own memory, which takes a small part of the
// time of copying them out. So a program stands still for no longer than that. A Memory may offer
// it, as it may offer what track.go lists.
type Shadower interface {
	// NewShadows gets memory for copies of so many chunks, or of fewer where the device has no more to
	// spare, and says of how many. It is called while the program runs, as it may take its time.
	NewShadows(chunks int) (s Shadows, room int, err error)
	// Settle waits until nobody needs a copy any more. It comes before the end of a device's context,
	// with which they go.
	Settle()
}

// Shadows are the copies of one checkpoint. A Map that finds no memory but theirs takes what holds
// no copy, and waits for the rest until it is released: a checkpoint must not make a program fail.
type Shadows interface {
	// Copy copies chunks, given by their addresses, as they are now, and returns the shadows of the
	// first of them: as many as there is memory for. Nothing may write the chunks until it returns.
	Copy(chunks []uint64) ([]Shadow, error)
	// Close gives all memory back, that of shadows which were not released too. Nobody may read one
	// any more.
	Close() error
}

// Shadow is the copy of one chunk.
type Shadow interface {
	// Read copies it out, a whole chunk.
	Read(into []byte) error
	// Release says that it is not needed any more.
	Release() error
}
