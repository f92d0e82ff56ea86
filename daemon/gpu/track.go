package gpu

// What a Memory may offer beyond the contract, for a checkpoint to find what changed and for a
// restore to bring memory back little by little (decision 8). A checkpoint asks for each by a type
// assertion and does without it where there is none.

// Tracker says which chunks were written. Bit i of a bitmap is chunk i of the range. The marks have
// one owner: whoever clears them must be the only one who does.
type Tracker interface {
	// Written returns the marks of a range.
	Written(r Range) []uint64
	// ClearWritten clears the marks and returns those that it has cleared. Clear first, then copy: a
	// store in between marks the chunk again. It may clear fewer than there are, even none: those
	// chunks count as written.
	ClearWritten(r Range) []uint64
	// Fresh returns which chunks nobody has written since they were mapped: they hold zeros, whatever
	// the range held before, and are not marked.
	Fresh(r Range) []uint64
}

// Digest is 128 bits that stand for a content under a key.
type Digest [16]byte

// DigestKey is secret and random, so that no content can be made to have the digest of another.
type DigestKey [16]byte

// Digester digests chunks where they lie, faster than they could be copied out. It is the answer to
// "what changed" of a backend that cannot mark: two contents that differ have the same digest with
// a probability below 2^-100.
type Digester interface {
	// Digests returns the digest of each chunk of a list of ranges of whole chunks, in their order:
	// all in one go, as asking a device costs more than a chunk. The digest of a chunk that is not
	// mapped is zero; Unmap of one that is being read waits.
	Digests(key DigestKey, list []Range) ([]Digest, error)
	// DigestCopy is the same function of a copy. A digest that is compared later must be that of the
	// bytes that were copied, as the chunk may have changed while they were.
	DigestCopy(key DigestKey, chunk []byte) Digest
}

// Pinner makes memory of this process known to the device, for copies out of it to go as fast as
// the link between them. That takes its time, so that it is worth it only for memory that is used
// often.
type Pinner interface {
	// Pin pins memory until unpin is called, which must be before the memory is given up.
	Pin(memory []byte) (unpin func() error, err error)
}

// Viewer shows memory where it lies.
type Viewer interface {
	// View calls do for the memory of a range, piece by piece in order. It counts as no touch, but
	// waits for absent chunks. do may hold up Unmap and ClearWritten, must not call this memory, and
	// must not keep the piece.
	View(r Range, do func(piece []byte) error) error
}

// Toucher says in which order chunks are touched.
type Toucher interface {
	// RecordTouches begins to record anew, or stops.
	RecordTouches(on bool)
	// Touches returns the chunks that were read or written while the last recording was on, by the
	// address of each, the first to be touched first.
	Touches() []uint64
}

// Lazy is what a Memory offers when chunks can stay absent until first touched.
type Lazy interface {
	// MapAbsent is Map, but the first touch of each chunk, by a kernel or a copy, waits for fill,
	// which is called once per chunk with the chunk's memory to fill, all zeros. An error poisons the
	// context of whoever touches the chunk; its abi.Result is the fault's. Filling marks nothing as
	// written.
	MapAbsent(r Range, fill func(address uint64, chunk []byte) error) error
}
