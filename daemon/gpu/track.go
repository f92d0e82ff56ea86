package gpu

// Optional interfaces of a Memory. A checkpoint uses them to find what changed, and a restore to
// load memory on demand. Each is found by a type assertion and may be missing.

// Tracker tracks which chunks are dirty. Bit i of a bitmap is chunk i of the range. Only one user
// at a time may clear dirty bits.
type Tracker interface {
	// Dirty returns the dirty bits of a range.
	Dirty(r Range) []uint64
	// ClearDirty clears dirty bits and returns those that it cleared. Clear first, then copy: a
	// store in between makes the chunk dirty again. It may clear fewer bits than are set, even
	// none; those chunks stay dirty.
	ClearDirty(r Range) []uint64
	// NeverWritten returns the chunks that were not written since they were mapped. They hold zeros,
	// whatever the range held before, and are not dirty.
	NeverWritten(r Range) []uint64
}

// Digest is a 128-bit keyed sum of a chunk's content.
type Digest [16]byte

// DigestKey is secret and random, so that programs cannot construct two contents with the same
// digest.
type DigestKey [16]byte

// Digester computes digests of chunks on the device, faster than the chunks could be copied out.
// Backends without dirty tracking use it to find changes: two different contents have the same
// digest with a probability below 2^-100.
type Digester interface {
	// Digests returns the digest of each chunk of a list of ranges, in order. One call covers all
	// ranges, because a request to the device costs more than a chunk. The digest of an unmapped
	// chunk is zero. Unmap of a chunk waits while it is being read.
	Digests(key DigestKey, list []Range) ([]Digest, error)
	// DigestCopy computes the same digest of a copy. A digest that is compared later must be taken
	// of the copied bytes, because the chunk may have changed during the copy.
	DigestCopy(key DigestKey, chunk []byte) Digest
}

// Pinner pins memory of this process, so that copies use the full bandwidth of the link. Pinning is
// slow, so it pays only for memory that is reused.
type Pinner interface {
	// Pin pins memory until unpin is called, which must be before the memory is freed.
	Pin(memory []byte) (unpin func() error, err error)
}

// Viewer gives access to device memory without a copy.
type Viewer interface {
	// View calls do for the memory of a range, piece by piece in order. It does not count as an
	// access, but waits for absent chunks. Unmap and ClearDirty may block while do runs. do must
	// not call this memory, and must not keep the piece.
	View(r Range, do func(piece []byte) error) error
}

// AccessRecorder records in which order chunks are accessed.
type AccessRecorder interface {
	// RecordAccesses starts a new recording, or stops it.
	RecordAccesses(on bool)
	// Accesses returns the addresses of the chunks that were read or written during the last
	// recording, in the order of their first access.
	Accesses() []uint64
}

// Saver saves the content of a chunk. It must not keep the content.
type Saver func(address uint64, content []byte)

// WriteGuard is a Memory that can save chunks just before they are written: copy on write.
type WriteGuard interface {
	// Guard lets save be called for each chunk of a list, given by address, before it is written or
	// unmapped, and only then. The access waits for it. It returns the chunks that it cannot guard.
	// Nothing may be written until it returns.
	Guard(chunks []uint64, save Saver) (rest []uint64)
	// Save saves a chunk now, unless it is saved already.
	Save(address uint64)
	// Unguard ends the guards of all chunks, and returns when none is being saved.
	Unguard()
}

// LazyMapper is a Memory whose chunks can stay absent until their first access.
type LazyMapper interface {
	// MapAbsent is Map, but the first access to each chunk, by a kernel or a copy, waits for fill.
	// fill is called once per chunk with its zeroed memory. If fill fails, the context of the
	// access is poisoned with its abi.Result. Filling does not make a chunk dirty.
	MapAbsent(r Range, fill func(address uint64, chunk []byte) error) error
}
