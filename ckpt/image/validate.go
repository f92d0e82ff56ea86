package image

import (
	"cmp"
	"slices"
	"strings"
)

// validate checks an entry that follows one with the name last.
func (e *Entry) validate(last string) error {
	switch {
	case e.Name == "" || len(e.Name) > MaxNameBytes || strings.ContainsRune(e.Name, 0):
		return malformed("%.80q cannot be the name of an entry", e.Name)
	case e.Name <= last:
		return malformed("entry %.80q comes after %.80q", e.Name, last)
	case e.Kind == File:
		return e.validateFile()
	case e.Kind == Memory:
		return e.validateMemory()
	}
	return malformed("entry %.80q is of kind %d", e.Name, e.Kind)
}

// validateFile checks that the chunks of a file are complete, in order, and divided at multiples of
// ChunkBytes.
func (e *Entry) validateFile() error {
	if e.Bytes/ChunkBytes > uint64(len(e.Chunks)) || uint64(len(e.Chunks)) != (e.Bytes+ChunkBytes-1)/ChunkBytes {
		return malformed("file %.80q of %d bytes has %d chunks", e.Name, e.Bytes, len(e.Chunks))
	}
	for i, chunk := range e.Chunks {
		at := uint64(i) * ChunkBytes
		if chunk.Address != at || uint64(chunk.Bytes) != min(ChunkBytes, e.Bytes-at) {
			return malformed("chunk %d of file %.80q is %d bytes at %#x", i, e.Name, chunk.Bytes, chunk.Address)
		}
	}
	return nil
}

// validateMemory checks that no chunk crosses a multiple of ChunkBytes and no two chunks overlap.
func (e *Entry) validateMemory() error {
	var total uint64
	starts := make([]uint64, len(e.Chunks))
	for i, chunk := range e.Chunks {
		offset := chunk.Address % ChunkBytes
		if chunk.Bytes == 0 || chunk.Bytes > ChunkBytes || offset+uint64(chunk.Bytes) > ChunkBytes {
			return malformed("memory %.80q has a chunk of %d bytes at %#x", e.Name, chunk.Bytes, chunk.Address)
		}
		total += uint64(chunk.Bytes)
		starts[i] = chunk.Address
	}
	if total != e.Bytes {
		return malformed("memory %.80q is %d bytes, and its chunks are %d", e.Name, e.Bytes, total)
	}
	if slices.IsSorted(starts) && !e.overlaps(nil) {
		return nil
	}
	order := make([]int, len(e.Chunks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(starts[a], starts[b]) })
	if e.overlaps(order) {
		return malformed("chunks of memory %.80q overlap", e.Name)
	}
	return nil
}

// overlaps compares neighbouring chunks in the given order; nil means their current order.
func (e *Entry) overlaps(order []int) bool {
	var end uint64
	for i := range e.Chunks {
		chunk := e.Chunks[i]
		if order != nil {
			chunk = e.Chunks[order[i]]
		}
		if i > 0 && chunk.Address < end {
			return true
		}
		// A chunk at the end of the address space ends at 0. Any address after it is an overlap,
		// too.
		if end = chunk.Address + uint64(chunk.Bytes); end == 0 {
			end = ^uint64(0)
		}
	}
	return false
}
