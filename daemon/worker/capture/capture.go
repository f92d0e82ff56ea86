package capture

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// Target is where contents go: a contents.Writer.
type Target interface {
	// Put writes a content unless it is there already, and returns its name. It is called by several
	// goroutines.
	Put(ctx context.Context, content []byte) (name image.Hash, written bool, err error)
	// Has reports whether a content is there, in this generation or one that it can share with.
	Has(name image.Hash) bool
}

// ErrUnderway means that another snapshot has not ended.
var ErrUnderway = errors.New("another checkpoint is under way")

// Capture remembers what the contents of a session's memories are called.
type Capture struct {
	sources func() []Source

	mu       sync.Mutex
	memories map[string]*memory // by name
	underway bool
}

// New makes a Capture of memories. sources is asked again and again, as a program allocates and
// frees: it returns what is mapped now, and may be called while the program runs.
func New(sources func() []Source) *Capture {
	return &Capture{sources: sources, memories: map[string]*memory{}}
}

// Seed tells what a memory holds that was just brought back from an image: chunks are those of its
// entry. It must be called before anything runs in that memory. The first checkpoint after a
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

// Begin starts a checkpoint. It must be ended by Finish or Abort.
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

// present returns the memories as they are now.
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
			return nil, fmt.Errorf("look at memory: %w", err)
		}
		list = append(list, m)
	}
	return list, nil
}

func (c *Capture) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underway = false
}
