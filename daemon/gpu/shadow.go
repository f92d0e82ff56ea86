package gpu

// Shadower copies chunks to shadow buffers in the device's own memory. This is much faster than
// copying them to the host, so it shortens the pause of a checkpoint. Like the interfaces in
// track.go it is optional for a Memory.
type Shadower interface {
	// NewShadows allocates buffers for copies of up to chunks chunks, fewer if the device has less
	// to spare; room is how many fit. It may be slow, so it is called while the program runs.
	NewShadows(chunks int) (s Shadows, room int, err error)
	// WaitReleased waits until all shadows are released. It must return before a device's context is
	// closed, because closing frees the shadows.
	WaitReleased()
}

// Shadows are the copies of one checkpoint. A Map that runs out of memory takes unused shadow
// buffers and waits for the release of used ones: a checkpoint must not make a program fail.
type Shadows interface {
	// Copy copies chunks, given by address, in their current state. It returns the shadows of the
	// first chunks, as many as fit. The chunks must not be written until it returns.
	Copy(chunks []uint64) ([]Shadow, error)
	// Close frees all buffers, including those of unreleased shadows, which must not be read
	// afterwards.
	Close() error
}

// Shadow is the copy of one chunk.
type Shadow interface {
	// Read copies the whole chunk to the host.
	Read(into []byte) error
	// Release marks the shadow as no longer needed.
	Release() error
}
