package packed

// chunkBytes is the memory that Rows allocates at once. A longer row has a chunk of its own.
const chunkBytes = 1 << 16

// Rows are byte strings that are only added. They move never, so that growth copies nothing.
type Rows struct{ chunks [][]byte }

// Place is where a row begins. The zero value is no row's.
type Place int64

// Add adds a row, and returns its place.
func (r *Rows) Add(row []byte) Place {
	last := len(r.chunks) - 1
	if last < 0 || len(r.chunks[last])+len(row) > cap(r.chunks[last]) {
		r.chunks = append(r.chunks, make([]byte, 0, max(chunkBytes, len(row))))
		last++
	}
	at := len(r.chunks[last])
	r.chunks[last] = append(r.chunks[last], row...)
	return Place(last*chunkBytes + at + 1)
}

// From returns a row and what follows it in its chunk: a row says itself where it ends.
func (r *Rows) From(at Place) Reader {
	at--
	return Reader{r.chunks[at/chunkBytes][at%chunkBytes:]}
}
