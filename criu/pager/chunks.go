package pager

import (
	"context"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
)

// chunkKey names a chunk of a pages image.
type chunkKey struct{ file, number int }

// keyOf returns the chunk in which a piece begins.
func keyOf(p piece) chunkKey { return chunkKey{p.file, int(p.offset / image.ChunkBytes)} }

// maxChunks is how many chunks are kept: those that are read ahead, and some in which threads touch
// pages now.
const maxChunks = 32

// chunks are the chunks that were read last, verified.
type chunks struct {
	layout *layout

	mu   sync.Mutex // guards what follows
	kept map[chunkKey]*chunk
	// order is that in which they were asked for.
	order []chunkKey
}

// chunk is a chunk that is being read; ready is closed when it is.
type chunk struct {
	ready   chan struct{}
	content []byte
	err     error
}

func newChunks(l *layout) *chunks { return &chunks{layout: l, kept: map[chunkKey]*chunk{}} }

// ask begins to read a chunk, if it is not kept.
func (c *chunks) ask(key chunkKey, how pool.Workers) *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.kept[key]; known != nil {
		return known
	}
	if len(c.order) == maxChunks {
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
	asked := &chunk{ready: make(chan struct{})}
	c.kept[key] = asked
	c.order = append(c.order, key)
	go func() {
		defer close(asked.ready)
		asked.err = pool.Each(context.Background(), how, []chunkKey{key}, func(chunkKey) (err error) {
			asked.content, err = c.read(key)
			return err
		})
	}()
	return asked
}

// get returns the content of a chunk, now.
func (c *chunks) get(key chunkKey) ([]byte, error) {
	asked := c.ask(key, pool.Workers{Count: 1})
	<-asked.ready
	return asked.content, asked.err
}

func (c *chunks) read(key chunkKey) ([]byte, error) {
	entry := c.layout.files[key.file].entry
	if key.number >= len(entry.Chunks) || entry.Chunks[key.number].Bytes > image.ChunkBytes {
		return nil, fmt.Errorf("%w: %s has no chunk %d", image.ErrMalformed, entry.Name, key.number)
	}
	content := make([]byte, entry.Chunks[key.number].Bytes)
	if err := c.layout.reader.ReadChunk(entry.Chunks[key.number], content); err != nil {
		return nil, fmt.Errorf("%s: %w", entry.Name, err)
	}
	return content, nil
}

// of returns the content of a piece within one chunk.
func (p piece) of(chunk []byte) ([]byte, error) {
	from := p.offset % image.ChunkBytes
	if to := from + p.end - p.start; to <= uint64(len(chunk)) {
		return chunk[from:to], nil
	}
	return nil, fmt.Errorf("%w: a chunk of %d bytes ends before the page at %#x", image.ErrMalformed, len(chunk), p.start)
}

// inChunk returns the first part of a piece, at most bytes, that is in one chunk.
func (p piece) inChunk(bytes uint64) piece {
	left := image.ChunkBytes - p.offset%image.ChunkBytes
	return p.clip(p.start, p.start+min(left, bytes, p.end-p.start))
}
