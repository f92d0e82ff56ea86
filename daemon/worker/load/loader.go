package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Contents is where contents come from: a contents.Reader.
type Contents interface {
	// Read reads a content and verifies it against its name. An error says in which file it was looked
	// for.
	Read(name image.Hash, into []byte) (int, error)
}

// ErrNoEntry means that the image has no memory of that name.
var ErrNoEntry = errors.New("the image has no such memory")

// Loader brings back the memories of one tree.
type Loader struct {
	contents Contents
	memories map[string]*memory
	settled  atomic.Bool
	total    uint64
	done     atomic.Uint64

	mu       sync.Mutex
	backings []*Backing
	failed   error // the first content that could not be read
}

// memory is an entry of the tree.
type memory struct {
	name   string
	chunks []image.Chunk // those that are not zeros, in the order of use
	// at finds a chunk by its address.
	at map[uint64]image.Chunk
}

// New makes a loader of a tree.
func New(contents Contents, tree *image.Tree) *Loader {
	l := &Loader{contents: contents, memories: map[string]*memory{}}
	for i := range tree.Entries {
		entry := &tree.Entries[i]
		if entry.Kind != image.Memory {
			continue
		}
		m := &memory{name: entry.Name, at: map[uint64]image.Chunk{}}
		for _, chunk := range entry.Chunks {
			if chunk.Hash.IsZero() {
				continue
			}
			m.chunks = append(m.chunks, chunk)
			m.at[chunk.Address] = chunk
			l.total += uint64(chunk.Bytes)
		}
		l.memories[entry.Name] = m
	}
	return l
}

// Chunks are the contents of a memory that are not zeros, in the order in which they were used; nil
// when there is no such memory. They are what capture.Seed wants.
func (l *Loader) Chunks(name string) []image.Chunk {
	if m := l.memories[name]; m != nil {
		return m.chunks
	}
	return nil
}

// Progress is how much has been brought back, of all that is not zeros.
func (l *Loader) Progress() (doneBytes, totalBytes uint64) { return l.done.Load(), l.total }

// Failed is the first error of a content that could not be read, nil while there is none.
func (l *Loader) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Fill brings back a memory that is touched without asking, as the arena is, by several goroutines.
// place returns where the content of a span of addresses belongs, all zeros; it refuses a span that
// is not there.
func (l *Loader) Fill(ctx context.Context, name string, place func(address, bytes uint64) ([]byte, error)) error {
	m := l.memories[name]
	if m == nil {
		return fmt.Errorf("load %s: %w", name, ErrNoEntry)
	}
	return pool.Each(ctx, pool.All(), m.chunks, func(chunk image.Chunk) error {
		into, err := place(chunk.Address, uint64(chunk.Bytes))
		if err != nil {
			return fmt.Errorf("load %s at %#x: %w", name, chunk.Address, err)
		}
		return l.read(m, chunk, into)
	})
}

// read brings one content to where it belongs.
func (l *Loader) read(m *memory, chunk image.Chunk, into []byte) error {
	n, err := l.contents.Read(chunk.Hash, into[:chunk.Bytes])
	if err == nil && n != int(chunk.Bytes) {
		err = fmt.Errorf("%w: it is %d bytes long, not %d", image.ErrMalformed, n, chunk.Bytes)
	}
	if err == nil {
		l.done.Add(uint64(chunk.Bytes))
		return nil
	}
	// The content of memory is lost: that is what the driver's code for a memory error says.
	err = fmt.Errorf("load content %s for %#x of %s: %w: %w", chunk.Hash, chunk.Address, m.name, err, abi.ECCUncorrectable)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	return err
}
