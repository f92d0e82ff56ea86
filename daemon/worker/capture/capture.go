package capture

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// Target is where contents are stored: a contents.Writer.
type Target interface {
	// Put stores a content, unless it is already there, and returns its hash. It is called by
	// several goroutines.
	Put(ctx context.Context, content []byte) (hash image.Hash, written bool, err error)
	// Has reports whether a content is stored, in this generation or in one that shares its packs.
	Has(hash image.Hash) bool
}

// ErrUnderway is returned while another snapshot is in progress.
var ErrUnderway = errors.New("another checkpoint is in progress")

// Capture remembers the hashes and digests of a session's memory from one checkpoint to the next.
type Capture struct {
	sources func() []Source

	mu       sync.Mutex
	memories map[string]*memory // by name
	underway bool
}

// New returns a Capture of memories. sources returns what is mapped now. It is called many times,
// also while the program runs.
func New(sources func() []Source) *Capture {
	return &Capture{sources: sources, memories: map[string]*memory{}}
}

// Seed records the content of a memory that was just restored: chunks are those of its entry in the
// image. It must be called before anything runs in that memory. The first checkpoint after a
// restore then writes only what changed.
func (c *Capture) Seed(source Source, chunks []image.Chunk) {
	m := newMemory()
	m.source = source
	for _, chunk := range chunks {
		m.learn(gpu.Range{Address: chunk.Address, Bytes: uint64(chunk.Bytes)}, content{hash: chunk.Hash})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memories[source.Name] = m
}

// Begin starts a checkpoint. Finish or Abort ends it.
func (c *Capture) Begin(target Target, options Options) (*Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underway {
		return nil, ErrUnderway
	}
	s, err := newSnapshot(c, target, options)
	if err != nil {
		return nil, err
	}
	c.underway = true
	return s, nil
}

// present returns the memories that are mapped now.
func (c *Capture) present() ([]*memory, error) {
	var list []*memory
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, source := range c.sources() {
		m := c.memories[source.Name]
		if m == nil {
			m = newMemory()
			c.memories[source.Name] = m
		}
		if err := m.refresh(source); err != nil {
			return nil, fmt.Errorf("read memory layout: %w", err)
		}
		list = append(list, m)
	}
	return list, nil
}

// finish ends the snapshot underway, so that the next one may begin.
func (c *Capture) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underway = false
}
