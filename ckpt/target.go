package ckpt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// Target is where an image is written.
type Target struct {
	Dir *store.Dir
	// Seal encodes and signs a manifest.
	Seal func(*image.Manifest) ([]byte, error)
}

// imageWriter is the transaction of one checkpoint. The CPU half and the saved files share one
// pack.
type imageWriter struct {
	target      Target
	transaction *store.Transaction
	old         []*os.File
	known       *contents.Reader
	writer      *contents.Writer
	// pressing is set while programs are paused.
	pressing atomic.Bool

	mu    sync.Mutex // guards fresh
	fresh []*os.File // new packs: one of this writer, one of each device
}

// begin starts a transaction in which contents of the existing packs need not be written again.
func (t Target) begin(ctx context.Context, options GPUOptions) (_ *imageWriter, err error) {
	w := &imageWriter{target: t}
	if w.transaction, err = t.Dir.Begin(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.abort()
		}
	}()
	if w.old, err = t.Dir.Packs(); err != nil {
		return nil, err
	}
	if w.known, err = contents.NewReader(w.old); err != nil {
		return nil, err
	}
	pack, err := w.newPack()
	if err != nil {
		return nil, err
	}
	w.writer = contents.NewWriter(pack, w.known, contents.WriterOptions{
		Compress: options.Compress, Limit: options.Limit, Pressing: w.pressing.Load,
	})
	return w, nil
}

// older returns CRIU's files of a tree in the newest generation; none if there is no such tree.
func (w *imageWriter) older(root int) (older OlderImages, err error) {
	older = OlderImages{Reader: w.known, Entries: map[string]image.Entry{}}
	newest, err := w.target.Dir.Newest()
	if errors.Is(err, store.ErrNoGeneration) {
		return older, nil
	}
	if err != nil {
		return older, err
	}
	m, err := w.target.Dir.Inspect(newest)
	if err != nil || m.CPU.Tree == "" {
		return older, err
	}
	tree, err := readTree(w.known, m.CPU.Tree)
	if err != nil {
		return older, err
	}
	for _, entry := range tree.Entries {
		if name, mine := strings.CutPrefix(entry.Name, strconv.Itoa(root)+"/"); mine && entry.Kind == image.File {
			older.Entries[name] = entry
		}
	}
	return older, nil
}

func (w *imageWriter) newPack() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pack, err := w.transaction.NewPack()
	if err == nil {
		w.fresh = append(w.fresh, pack)
	}
	return pack, err
}

// packs returns the packs for a device: a new one to write, and all old ones.
func (w *imageWriter) packs() ([]*os.File, error) {
	pack, err := w.newPack()
	if err != nil {
		return nil, err
	}
	return append([]*os.File{pack}, w.old...), nil
}

// dropPack removes a device's new pack. After the end of the transaction it does nothing.
func (w *imageWriter) dropPack(pack *os.File) error {
	if w.transaction == nil {
		return nil
	}
	w.mu.Lock()
	w.fresh = slices.DeleteFunc(w.fresh, func(other *os.File) bool { return other == pack })
	w.mu.Unlock()
	return errors.Join(w.transaction.Drop(pack), pack.Close())
}

// putWhole stores a file under one hash: that of its only chunk, or of a tree if it has more.
func (w *imageWriter) putWhole(ctx context.Context, entry image.Entry) (string, error) {
	if len(entry.Chunks) <= 1 {
		var only image.Hash
		if len(entry.Chunks) == 1 {
			only = entry.Chunks[0].Hash
		}
		return only.String(), nil
	}
	hash, err := w.writer.PutTree(ctx, &image.Tree{Entries: []image.Entry{entry}})
	return hash.String(), err
}

// commit seals the manifest and commits the transaction.
func (w *imageWriter) commit(ctx context.Context, manifest *image.Manifest) error {
	sealed, err := w.target.Seal(manifest)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if err := w.transaction.Commit(ctx, sealed); err != nil {
		return err
	}
	w.transaction = nil
	w.close()
	return nil
}

// abort makes the directory what it was. After a commit it does nothing.
func (w *imageWriter) abort() {
	if w.transaction != nil {
		_ = w.transaction.Abort() // the next transaction removes the rest
		w.transaction = nil
	}
	w.close()
}

func (w *imageWriter) close() {
	for _, pack := range append(w.old, w.fresh...) {
		_ = pack.Close() // the transaction has its own descriptors
	}
	w.old, w.fresh = nil, nil
}
