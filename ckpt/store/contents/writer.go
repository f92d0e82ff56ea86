package contents

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// WriterOptions configure a Writer.
type WriterOptions struct {
	// Compress stores contents as zstd if that is shorter.
	Compress bool
	// Limit limits the rate; nil means no limit.
	Limit *Limit
	// Pressing, if not nil, reports whether contents must be written without a delay; they only count
	// in the Limit then.
	Pressing func() bool
}

// WriterStats count what a Writer was given.
type WriterStats struct {
	// WrittenBytes were added to the pack, where they took StoredBytes.
	WrittenBytes, StoredBytes uint64
	// SharedBytes were already stored, ZeroBytes were zeros.
	SharedBytes, ZeroBytes uint64
}

// Writer adds contents to a pack. It is safe for concurrent use. After the first error every call
// returns it, including Close, so a pack is either complete or not part of any image.
type Writer struct {
	pack    *os.File
	known   *Reader
	options WriterOptions

	mu        sync.Mutex
	header    image.PackHeader
	places    map[image.Hash]image.Place
	allocator allocator
	stats     WriterStats
	err       error
	closed    bool

	direct    directWrites
	writeback writeback
}

// NewWriter returns a Writer for a pack of Transaction.NewPack. It writes only contents that
// neither known nor the pack has. known may be nil. The caller closes the file.
func NewWriter(pack *os.File, known *Reader, options WriterOptions) *Writer {
	w := &Writer{
		pack: pack, known: known, options: options, places: map[image.Hash]image.Place{},
		allocator: newAllocator(),
	}
	var err error
	w.header, err = LoadHeader(pack)
	if info, bad := pack.Stat(); err == nil {
		if err = bad; err == nil && info.Size() != image.PackHeaderBytes {
			err = fmt.Errorf("%w: the pack is not empty", image.ErrMalformed)
		}
	}
	if err != nil {
		w.err = fmt.Errorf("write %s: %w", pack.Name(), err)
		return w
	}
	return w
}

// Put stores a content of up to image.ChunkBytes. It returns the hash, and whether the content
// had to be written.
func (w *Writer) Put(ctx context.Context, content []byte) (h image.Hash, written bool, err error) {
	h = image.Sum(content)
	written, err = w.put(ctx, h, content, w.options.Compress)
	return h, written, err
}

// PutHashed stores a content whose hash the caller knows.
func (w *Writer) PutHashed(ctx context.Context, h image.Hash, content []byte) (written bool, err error) {
	return w.put(ctx, h, content, w.options.Compress)
}

// Has reports whether a content is already stored.
func (w *Writer) Has(h image.Hash) bool {
	if w.known.Has(h) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, mine := w.places[h]
	return mine
}

func (w *Writer) put(ctx context.Context, h image.Hash, content []byte, compress bool) (written bool, err error) {
	if len(content) > image.ChunkBytes {
		return false, fmt.Errorf("%w: a content of %d bytes", image.ErrMalformed, len(content))
	}
	if done, err := w.begin(h, len(content), w.known.Has(h), false); done || err != nil {
		return false, err
	}
	record := image.Record{Hash: h, ContentBytes: uint32(len(content)), StoredBytes: uint32(len(content))}
	stored := content
	if compress {
		buffer := buffers.Get().(*[image.ChunkBytes]byte)
		defer buffers.Put(buffer)
		if short, ok := compressed(buffer[:0], content); ok {
			stored, record.Encoding, record.StoredBytes = short, image.Zstd, uint32(len(short))
		}
	}
	err = w.waitForLimit(ctx, len(stored))
	if err == nil {
		err = w.write(record, stored)
	}
	if err != nil {
		return false, w.fail(err)
	}
	return true, nil
}

// waitForLimit blocks until the limit allows so many bytes.
func (w *Writer) waitForLimit(ctx context.Context, bytes int) error {
	if w.options.Pressing != nil && w.options.Pressing() {
		w.options.Limit.Charge(bytes)
		return ctx.Err()
	}
	return w.options.Limit.Wait(ctx, bytes)
}

// putPlain stores a content that must not be compressed, even if it is already stored compressed.
func (w *Writer) putPlain(ctx context.Context, content []byte) (image.Hash, error) {
	h := image.Sum(content)
	err := w.waitForLimit(ctx, len(content))
	if err == nil {
		record := image.Record{Hash: h, ContentBytes: uint32(len(content)), StoredBytes: uint32(len(content))}
		err = w.putStored(record, content)
	}
	return h, err
}

// putStored stores a verified content in its stored form.
func (w *Writer) putStored(record image.Record, stored []byte) error {
	plain := record.Encoding == image.Raw
	shared := w.known.Has(record.Hash) && (!plain || w.known.hasPlain(record.Hash))
	if done, err := w.begin(record.Hash, int(record.ContentBytes), shared, plain); done || err != nil {
		return err
	}
	if err := w.write(record, stored); err != nil {
		return w.fail(err)
	}
	return nil
}

// begin claims a content, so that no other goroutine writes it. done is set if it need not be
// written. With plain set only uncompressed contents count.
func (w *Writer) begin(h image.Hash, contentBytes int, shared, plain bool) (done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, mine := w.places[h]
	switch {
	case w.err != nil:
		return false, w.err
	case w.closed:
		return false, fmt.Errorf("write %s: %w", w.pack.Name(), os.ErrClosed)
	case h.IsZero():
		w.stats.ZeroBytes += uint64(contentBytes)
		return true, nil
	case shared, mine && (!plain || at.Encoding == image.Raw):
		w.stats.SharedBytes += uint64(contentBytes)
		return true, nil
	}
	w.places[h] = image.Place{}
	return false, nil
}

// write allocates space for a content and writes it.
func (w *Writer) write(record image.Record, stored []byte) error {
	w.mu.Lock()
	var head []byte
	at := w.allocator.slot(record, w.options.Compress)
	slot := at >= 0
	place := placeOf(record, at)
	if slot {
		place.Offset = uint64(at)
	} else {
		var newRun bool
		at, newRun = w.allocator.record(&record)
		place = placeOf(record, at)
		if newRun {
			at -= image.RunHeaderBytes
			head = image.EncodeRun(w.header.Pack, at)
		}
		head = append(append(head, record.Encode()...), make([]byte, record.PadBytes)...)
	}
	w.places[record.Hash] = place
	w.stats.WrittenBytes += uint64(record.ContentBytes)
	w.stats.StoredBytes += uint64(len(head) + len(stored))
	w.mu.Unlock()
	if slot && w.direct.write(w.pack, at, stored) {
		return nil
	}
	err := writeAt(w.pack, at, head, stored)
	if err == nil {
		w.writeback.wrote(w.pack, at, int64(len(head)+len(stored)))
	}
	return err
}

// writeAt writes two adjacent pieces.
func writeAt(file *os.File, at int64, head, body []byte) error {
	for len(head)+len(body) > 0 {
		n, err := unix.Pwritev(int(file.Fd()), [][]byte{head, body}, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "write", Path: file.Name(), Err: err}
		}
		at += int64(n)
		first := min(n, len(head))
		head, body = head[first:], body[n-first:]
	}
	return nil
}

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(
		nil,
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false),
	)
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}}

// compressed returns the compressed form of a content. ok is false if it saves too little to be
// worth the slower reading.
func compressed(buffer, content []byte) ([]byte, bool) {
	encoder := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(encoder)
	out := encoder.EncodeAll(content, buffer[:image.SumBytes])
	if len(out) > len(content)-len(content)/8 {
		return nil, false
	}
	sum := blake3.Sum256(out[image.SumBytes:])
	copy(out, sum[:image.SumBytes])
	return out, true
}

// fail records the first error and returns it.
func (w *Writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// PutTree stores a tree, ordered by the names of its entries, and returns its hash.
func (w *Writer) PutTree(ctx context.Context, tree *image.Tree) (image.Hash, error) {
	ordered := image.Tree{Entries: slices.Clone(tree.Entries)}
	slices.SortFunc(ordered.Entries, func(a, b image.Entry) int { return strings.Compare(a.Name, b.Name) })
	raw, err := ordered.Encode()
	if err != nil {
		return image.Hash{}, err
	}
	if len(raw) <= image.ChunkBytes {
		return w.putPlain(ctx, raw)
	}
	list := image.List{Bytes: uint64(len(raw))}
	for len(raw) > 0 {
		part := raw[:min(len(raw), image.ChunkBytes)]
		h, err := w.putPlain(ctx, part)
		if err != nil {
			return image.Hash{}, err
		}
		list.Parts, raw = append(list.Parts, h), raw[len(part):]
	}
	return w.putPlain(ctx, list.Encode())
}

// Stats returns what was written so far.
func (w *Writer) Stats() WriterStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Close writes the index. Without it the pack cannot be committed.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.closed {
		return w.err
	}
	w.closed = true
	places := make([]image.Place, 0, len(w.places))
	for _, each := range w.places {
		places = append(places, each)
	}
	end := w.allocator.end()
	if err := writeAt(w.pack, end, nil, encodeIndex(places, end)); err != nil {
		w.err = err
	}
	return w.err
}
