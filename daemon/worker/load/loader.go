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

// Contents is the source of contents: a contents.Reader.
type Contents interface {
	// Read reads a content and verifies it against its hash. An error names the file.
	Read(hash image.Hash, into []byte) (int, error)
}

// ErrNoEntry is returned when the image has no memory with that name.
var ErrNoEntry = errors.New("the image has no such memory")

// LostError is returned for memory whose content cannot be read. It answers errors.Is for the
// driver's code for a memory error, which calls that touch the memory return.
type LostError struct {
	// Memory is the name of the entry.
	Memory  string
	Address uint64
	// Err names the content and the file.
	Err error
}

func (e *LostError) Error() string { return fmt.Sprintf("%#x of %s: %v", e.Address, e.Memory, e.Err) }

// Unwrap returns the cause and the driver's code.
func (e *LostError) Unwrap() []error { return []error{e.Err, abi.ECCUncorrectable} }

// Loader loads the memories of one tree.
type Loader struct {
	// Lost, if not nil, is called with the first read error, before a kernel fails because of it.
	Lost func(error)

	contents Contents
	memories map[string]*memory
	complete atomic.Bool
	total    uint64
	done     atomic.Uint64

	mu       sync.Mutex
	backings []*Backing
	failed   error // the first read error
}

// memory is an entry of the tree.
type memory struct {
	name   string
	chunks []image.Chunk // those that are not zeros, in the order of use
	// at maps addresses to chunks.
	at map[uint64]image.Chunk
}

// New returns a loader of a tree.
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

// Chunks returns the chunks of a memory that are not zeros, in the order of use; nil if there is no
// such memory. They are the input of capture.Seed.
func (l *Loader) Chunks(name string) []image.Chunk {
	if m := l.memories[name]; m != nil {
		return m.chunks
	}
	return nil
}

// Progress returns how much has been loaded, of all that is not zeros.
func (l *Loader) Progress() (doneBytes, totalBytes uint64) { return l.done.Load(), l.total }

// Failed returns the first error of an unreadable content, or nil.
func (l *Loader) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Fill loads a memory that is used without notice, such as the arena, by several goroutines. place
// returns the zeroed memory for a span of addresses, or an error if the span is not mapped.
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

// read reads one content into memory.
func (l *Loader) read(m *memory, chunk image.Chunk, into []byte) error {
	n, err := l.contents.Read(chunk.Hash, into[:chunk.Bytes])
	if err == nil && n != int(chunk.Bytes) {
		err = fmt.Errorf("%w: content %s has %d bytes, want %d", image.ErrMalformed, chunk.Hash, n, chunk.Bytes)
	}
	if err == nil {
		l.done.Add(uint64(chunk.Bytes))
		return nil
	}
	err = &LostError{m.name, chunk.Address, err}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
		if l.Lost != nil {
			l.Lost(err)
		}
	}
	return err
}
