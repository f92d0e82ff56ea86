package contents

import "github.com/phos-gpu/phos/ckpt/image"

// allocator allocates space in a pack.
type allocator struct {
	// next is where the next record of the run may begin; limit is where the run must end, or 0 if
	// it is the last thing in the pack.
	next, limit int64
	// free is the first slot after everything.
	free int64
}

// newAllocator returns the room of a pack that has only its header.
func newAllocator() allocator { return allocator{next: image.PackHeaderBytes, free: image.ChunkBytes} }

// slot allocates a slot for a whole chunk; -1 means that the chunk goes into a run. With
// compression all chunks go into the run, which would be divided otherwise.
func (a *allocator) slot(record image.Record, compressing bool) int64 {
	if record.StoredBytes != image.ChunkBytes || compressing {
		return -1
	}
	at := a.free
	if a.limit == 0 {
		a.limit = at
	}
	a.free += image.ChunkBytes
	return at
}

// record allocates space for a record and sets its padding. The header of a new run directly
// precedes the record.
func (a *allocator) record(record *image.Record) (at int64, newRun bool) {
	at = a.next
	record.PadBytes = image.PadFor(at, int(record.StoredBytes))
	if a.limit != 0 && at+record.Bytes() > a.limit {
		at, newRun, a.limit = a.free+image.RunHeaderBytes, true, 0
		record.PadBytes = image.PadFor(at, int(record.StoredBytes))
	}
	a.next = at + record.Bytes()
	if a.limit == 0 {
		a.free = image.RoundUp(a.next, image.ChunkBytes)
	}
	return at, newRun
}

// end returns the offset of the index.
func (a *allocator) end() int64 {
	if a.limit == 0 {
		return a.next
	}
	return a.free
}
