package contents

import "github.com/phos-gpu/phos/ckpt/image"

// room says where in a pack the next content goes.
type room struct {
	// next is where the next record of the run may begin, limit where the run must end; 0: it is the
	// last thing in the pack.
	next, limit int64
	// free is the first slot behind everything.
	free int64
}

// newRoom is that of a pack with nothing but its header.
func newRoom() room { return room{next: image.PackHeaderBytes, free: image.ChunkBytes} }

// slot takes a slot for a whole chunk; -1: it goes into a run. Beside compressed contents chunks go
// into the run too, because it would be cut into pieces otherwise.
func (r *room) slot(record image.Record, compressing bool) int64 {
	if record.StoredBytes != image.ChunkBytes || compressing {
		return -1
	}
	at := r.free
	if r.limit == 0 {
		r.limit = at
	}
	r.free += image.ChunkBytes
	return at
}

// record takes room for a record, and sets its padding. A new run has its header right before the
// record.
func (r *room) record(record *image.Record) (at int64, newRun bool) {
	at = r.next
	record.PadBytes = image.PadFor(at, int(record.StoredBytes))
	if r.limit != 0 && at+record.Bytes() > r.limit {
		at, newRun, r.limit = r.free+image.RunHeaderBytes, true, 0
		record.PadBytes = image.PadFor(at, int(record.StoredBytes))
	}
	r.next = at + record.Bytes()
	if r.limit == 0 {
		r.free = image.RoundUp(r.next, image.ChunkBytes)
	}
	return at, newRun
}

// end is where the index goes.
func (r *room) end() int64 {
	if r.limit == 0 {
		return r.next
	}
	return r.free
}
