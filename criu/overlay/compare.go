package overlay

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/criu/imagefile"
)

// pageBytes is the length of a page.
var pageBytes = uint64(os.Getpagesize())

// maxListBytes is an upper bound for a list of pages.
const maxListBytes = 64 << 20

// base is a whole copy of the memory of a process in an older generation.
type base struct {
	reader *contents.Reader
	// listEntry and pages are its files, list is what is in the first.
	listEntry, pages image.Entry
	list             *imagefile.Pagemap
	bytes            uint64
	// used are the chunks with pages that are the same in the copy.
	used []bool
}

// entries returns what a copy over the base needs of it, by the names of the files. Chunks without
// a page of the copy are left out: zeros take their place.
func (b *base) entries() map[string]image.Entry {
	pages := b.pages
	pages.Chunks = slices.Clone(pages.Chunks)
	for i := range pages.Chunks {
		if !b.used[i] {
			pages.Chunks[i].Hash = image.Hash{}
		}
	}
	pid := int(b.list.ID)
	return map[string]image.Entry{imagefile.PagemapName(pid): b.listEntry, imagefile.PagesName(b.list.ID): pages}
}

// findBase returns the base of an older dump, or nil: that over which its copy lies, or else its
// copy, if that is whole.
func findBase(older ckpt.OlderImages, pid int) (*base, error) {
	for _, where := range []string{ckpt.ParentImages + "/" + ckpt.ParentImages + "/", ckpt.ParentImages + "/"} {
		list, found := older.Entries[where+imagefile.PagemapName(pid)]
		if !found {
			continue
		}
		if list.Bytes > maxListBytes {
			return nil, fmt.Errorf("%w: a list of %d bytes", imagefile.ErrMalformed, list.Bytes)
		}
		content := make([]byte, list.Bytes)
		if err := older.Reader.ReadFile(list, content); err != nil {
			return nil, err
		}
		b := &base{reader: older.Reader, listEntry: list}
		var err error
		if b.list, err = imagefile.ReadPagemap(content); err != nil {
			return nil, err
		}
		if b.list.ID != uint64(pid) { // CRIU's own copy: its names are not those of pids
			return nil, nil
		}
		b.pages = older.Entries[where+imagefile.PagesName(b.list.ID)]
		b.used = make([]bool, len(b.pages.Chunks))
		return b, b.check()
	}
	return nil, nil
}

// check returns an error unless the copy is whole.
func (b *base) check() error {
	for _, run := range b.list.Pages {
		if run.InParent {
			return fmt.Errorf("%w: it lies over another", imagefile.ErrMalformed)
		}
		b.bytes += run.End - run.Start
	}
	if b.bytes > b.pages.Bytes {
		return fmt.Errorf("%w: pages of %d bytes, and a list of %d", imagefile.ErrMalformed, b.pages.Bytes, b.bytes)
	}
	return nil
}

// pageSet says which pages of a copy are in the base, by their number in the file.
type pageSet []bool

// bytes returns how much memory the pages are.
func (s pageSet) bytes() (total uint64) {
	for _, in := range s {
		if in {
			total += pageBytes
		}
	}
	return total
}

// split splits a run, whose content begins at an offset, into parts that are in the base and parts
// that are not.
func (s pageSet) split(run imagefile.Pages, offset uint64) (parts []imagefile.Pages) {
	for at := run.Start; at < run.End; at += pageBytes {
		in := s[(offset+at-run.Start)/pageBytes]
		if last := len(parts) - 1; last >= 0 && parts[last].InParent == in {
			parts[last].End = at + pageBytes
			continue
		}
		parts = append(parts, imagefile.Pages{Start: at, End: at + pageBytes, InParent: in})
	}
	return parts
}

// common is a range that a copy and a base have, and where its content is in each.
type common struct{ bytes, inCopy, inBase uint64 }

// compare finds the pages that are equal in the base, reading each of its chunks once.
func compare(ctx context.Context, c *copied, b *base) (pageSet, error) {
	same := make(pageSet, c.bytes/pageBytes)
	var chunks [][]common
	last := uint64(0)
	for _, each := range commons(c.list.Pages, b.list.Pages) {
		for each.bytes > 0 { // cut at the ends of chunks
			part := each
			chunk := each.inBase / image.ChunkBytes
			part.bytes = min(part.bytes, (chunk+1)*image.ChunkBytes-each.inBase)
			if len(chunks) == 0 || chunk != last {
				chunks, last = append(chunks, nil), chunk
			}
			chunks[len(chunks)-1] = append(chunks[len(chunks)-1], part)
			each = common{each.bytes - part.bytes, each.inCopy + part.bytes, each.inBase + part.bytes}
		}
	}
	return same, pool.Each(ctx, pool.Background(), chunks, func(parts []common) error {
		return c.compareChunk(b, parts, same)
	})
}

// commons returns what two lists of runs have in common, in the order of addresses.
func commons(inCopy, inBase []imagefile.Pages) (found []common) {
	var copyAt, baseAt uint64
	for len(inCopy) > 0 && len(inBase) > 0 {
		one, other := inCopy[0], inBase[0]
		if start, end := max(one.Start, other.Start), min(one.End, other.End); start < end {
			found = append(found, common{end - start, copyAt + start - one.Start, baseAt + start - other.Start})
		}
		if one.End <= other.End {
			copyAt, inCopy = copyAt+one.End-one.Start, inCopy[1:]
		} else {
			baseAt, inBase = baseAt+other.End-other.Start, inBase[1:]
		}
	}
	return found
}

// chunkBuffers hold a chunk of a base, and what is compared with it.
var chunkBuffers = sync.Pool{New: func() any { return new([2][image.ChunkBytes]byte) }}

// compareChunk compares parts that are in one chunk of the base.
func (c *copied) compareChunk(b *base, parts []common, same pageSet) error {
	buffers := chunkBuffers.Get().(*[2][image.ChunkBytes]byte)
	defer chunkBuffers.Put(buffers)
	number := int(parts[0].inBase / image.ChunkBytes)
	if number >= len(b.pages.Chunks) || b.pages.Chunks[number].Bytes > image.ChunkBytes {
		return fmt.Errorf("%w: no chunk %d", imagefile.ErrMalformed, number)
	}
	chunk := buffers[0][:b.pages.Chunks[number].Bytes]
	if err := b.reader.ReadChunk(b.pages.Chunks[number], chunk); err != nil {
		return err
	}
	for _, part := range parts {
		from := part.inBase % image.ChunkBytes
		if from+part.bytes > uint64(len(chunk)) {
			return fmt.Errorf("%w: chunk %d is too short", imagefile.ErrMalformed, number)
		}
		now := buffers[1][:part.bytes]
		if _, err := c.pages.ReadAt(now, int64(part.inCopy)); err != nil {
			return err
		}
		was := chunk[from : from+part.bytes]
		for at := uint64(0); at < part.bytes; at += pageBytes {
			if bytes.Equal(now[at:at+pageBytes], was[at:at+pageBytes]) {
				same[(part.inCopy+at)/pageBytes] = true
				b.used[number] = true
			}
		}
	}
	return nil
}
