package contents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/phos-gpu/phos/ckpt/image"
)

// PutFile stores everything from a reader and describes it as a file. Chunks are written while the
// next ones are read.
func (w *Writer) PutFile(ctx context.Context, name string, r io.Reader) (image.Entry, error) {
	return w.putFile(ctx, name, r, w.options.Compress)
}

// PutSparse is PutFile with compression, for content that is mostly zeros or repetitive.
func (w *Writer) PutSparse(ctx context.Context, name string, r io.Reader) (image.Entry, error) {
	return w.putFile(ctx, name, r, true)
}

func (w *Writer) putFile(ctx context.Context, name string, r io.Reader, compress bool) (image.Entry, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	entry := image.Entry{Kind: image.File, Name: name}
	var (
		mu     sync.Mutex // guards the hashes in entry.Chunks
		writes sync.WaitGroup
		slots  = make(chan struct{}, runtime.GOMAXPROCS(0)+1)
	)
	var failed error
	for ctx.Err() == nil {
		slots <- struct{}{}
		buffer := buffers.Get().(*[image.ChunkBytes]byte)
		n, err := io.ReadFull(r, buffer[:])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			buffers.Put(buffer)
			if !errors.Is(err, io.EOF) {
				failed = fmt.Errorf("read %s: %w", name, err)
			}
			break
		}
		mu.Lock()
		i := len(entry.Chunks)
		entry.Chunks = append(entry.Chunks, image.Chunk{Address: entry.Bytes, Bytes: uint32(n)})
		mu.Unlock()
		entry.Bytes += uint64(n)
		writes.Go(func() {
			defer func() { <-slots }()
			defer buffers.Put(buffer)
			h := image.Sum(buffer[:n])
			_, err := w.put(ctx, h, buffer[:n], compress)
			if err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			entry.Chunks[i].Hash = h
		})
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
	}
	writes.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return entry, failed
}
