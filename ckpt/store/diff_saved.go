package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Total is the size of one kind of state in two generations.
type Total struct {
	BytesBefore uint64 `json:"bytes_before"`
	BytesAfter  uint64 `json:"bytes_after"`
	// ChangedBytes of BytesAfter are new or different; SharedBytes are the same at the same
	// address. Only whole chunks count.
	ChangedBytes uint64 `json:"changed_bytes"`
	SharedBytes  uint64 `json:"shared_bytes"`
}

// add counts the chunks of one entry.
func (t *Total) add(before, after []image.Chunk) {
	was := make(map[uint64]image.Chunk, len(before))
	for _, chunk := range before {
		was[chunk.Address] = chunk
		t.BytesBefore += uint64(chunk.Bytes)
	}
	for _, chunk := range after {
		t.BytesAfter += uint64(chunk.Bytes)
		if old, ok := was[chunk.Address]; ok && old == chunk {
			t.SharedBytes += uint64(chunk.Bytes)
		} else {
			t.ChangedBytes += uint64(chunk.Bytes)
		}
	}
}

// saved compares the saved regular files, by path.
func (d *Difference) saved(sides [2]side) error {
	d.Files = []FileDifference{}
	pairs := map[string]*[2]image.SavedFile{}
	for i := range sides {
		for _, each := range sides[i].manifest.Files {
			if pairs[each.Path] == nil {
				pairs[each.Path] = &[2]image.SavedFile{}
			}
			pairs[each.Path][i] = each
		}
	}
	for _, path := range slices.Sorted(maps.Keys(pairs)) {
		var entries [2]image.Entry
		for i, each := range pairs[path] {
			var err error
			if entries[i], err = sides[i].savedEntry(each); err != nil {
				return fmt.Errorf("file %s: %w", path, err)
			}
		}
		d.Totals.Files.add(entries[0].Chunks, entries[1].Chunks)
		if f, differs := diffFile(path, entries[0], entries[1]); differs {
			d.Files = append(d.Files, f)
		}
	}
	return nil
}

// savedEntry returns a saved file as an entry of a tree; an empty one for a missing file. A content
// that was not saved differs from every other.
func (s side) savedEntry(saved image.SavedFile) (image.Entry, error) {
	entry := image.Entry{Kind: image.File, Name: saved.Path, Bytes: saved.Bytes}
	switch {
	case saved.Path == "":
		return image.Entry{}, nil
	case saved.Hash == "" || saved.Bytes == 0:
		return entry, nil
	case saved.Bytes > image.ChunkBytes:
		tree, err := s.tree(saved.Hash)
		if err != nil {
			return entry, err
		}
		if len(tree.Entries) != 1 || tree.Entries[0].Kind != image.File {
			return entry, fmt.Errorf("%w: unexpected tree", image.ErrMalformed)
		}
		return tree.Entries[0], nil
	}
	hash, err := image.ParseHash(saved.Hash)
	entry.Chunks = []image.Chunk{{Bytes: uint32(saved.Bytes), Hash: hash}}
	return entry, err
}
