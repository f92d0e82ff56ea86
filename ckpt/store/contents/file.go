package contents

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/phos-gpu/phos/ckpt/image"
)

// file is a file of a tree. It caches the chunk that was read last.
type file struct {
	reader *Reader
	entry  image.Entry

	mu     sync.Mutex
	buffer []byte
	// chunk is the number of the cached chunk, counted from 1; 0 means none.
	chunk int
}

func (f *file) ReadAt(p []byte, at int64) (done int, err error) {
	if at < 0 {
		return 0, fmt.Errorf("%w: offset %d of %s", image.ErrMalformed, at, f.entry.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for done < len(p) {
		offset := uint64(at) + uint64(done)
		if offset >= f.entry.Bytes {
			return done, io.EOF
		}
		i := int(offset / image.ChunkBytes)
		if err := f.load(i); err != nil {
			return done, err
		}
		done += copy(p[done:], f.buffer[offset%image.ChunkBytes:])
	}
	return done, nil
}

func (f *file) load(i int) error {
	if f.chunk == i+1 {
		return nil
	}
	f.chunk = 0
	if i >= len(f.entry.Chunks) {
		return fmt.Errorf("%w: %s has no chunk %d", image.ErrMalformed, f.entry.Name, i)
	}
	chunk := f.entry.Chunks[i]
	if f.buffer == nil {
		f.buffer = make([]byte, chunk.Bytes, image.ChunkBytes)
	}
	f.buffer = f.buffer[:chunk.Bytes]
	if err := f.reader.ReadChunk(chunk, f.buffer); err != nil {
		return fmt.Errorf("%s: %w", f.entry.Name, err)
	}
	f.chunk = i + 1
	return nil
}

// StoredBytes returns the size of an entry in the packs. Chunks with the same content count once,
// zeros not at all. Callers that allocate memory for a whole file ask first, because a long file
// may be stored in few bytes.
func (r *Reader) StoredBytes(entry image.Entry) (bytes uint64) {
	counted := make(map[image.Hash]bool, len(entry.Chunks))
	for _, chunk := range entry.Chunks {
		if !counted[chunk.Hash] {
			counted[chunk.Hash] = true
			bytes += uint64(r.places[chunk.Hash].storedBytes)
		}
	}
	return bytes
}

// ReadFile reads a whole file of a tree into zeroed memory of the same length. Chunks of zeros are
// not touched.
func (r *Reader) ReadFile(entry image.Entry, into []byte) error {
	if uint64(len(into)) != entry.Bytes {
		return fmt.Errorf("%w: %d bytes of memory for %s of %d", image.ErrMalformed, len(into), entry.Name, entry.Bytes)
	}
	at := uint64(0)
	for _, chunk := range entry.Chunks {
		if chunk.Address != at || uint64(chunk.Bytes) > entry.Bytes-at {
			return fmt.Errorf(
				"%w: %s has a chunk of %d bytes at %#x",
				image.ErrMalformed,
				entry.Name,
				chunk.Bytes,
				chunk.Address,
			)
		}
		at += uint64(chunk.Bytes)
		if chunk.Hash.IsZero() {
			continue
		}
		if err := r.ReadChunk(chunk, into[chunk.Address:at]); err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
	if at != entry.Bytes {
		return fmt.Errorf("%w: %s has %d bytes of %d", image.ErrMalformed, entry.Name, at, entry.Bytes)
	}
	return nil
}

// ReadChunk reads a chunk of an entry; dst must have its length.
func (r *Reader) ReadChunk(chunk image.Chunk, dst []byte) error {
	if len(dst) != int(chunk.Bytes) {
		return fmt.Errorf("%w: a chunk of %d bytes for %d", image.ErrMalformed, chunk.Bytes, len(dst))
	}
	n, err := r.Read(chunk.Hash, dst)
	if err == nil && n != len(dst) {
		err = fmt.Errorf("%w: a chunk of %d bytes has %d", image.ErrMalformed, chunk.Bytes, n)
	}
	return err
}

// Copy writes a file of a tree to a writer.
func (r *Reader) Copy(ctx context.Context, entry image.Entry, to io.Writer) error {
	buffer := buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(buffer)
	for _, chunk := range entry.Chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.ReadChunk(chunk, buffer[:chunk.Bytes]); err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
		if _, err := to.Write(buffer[:chunk.Bytes]); err != nil {
			return fmt.Errorf("write %s: %w", entry.Name, err)
		}
	}
	return nil
}
