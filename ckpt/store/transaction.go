package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// Transaction creates one generation. Until Commit has returned without an error, the image is as
// before.
type Transaction struct {
	dir        *Dir
	writer     held
	generation uint64
	// headOnly is set if memory may be missing.
	headOnly bool

	mu    sync.Mutex
	packs []pending
	ended bool
}

// pending is a pack that is not part of the image yet.
type pending struct {
	id   image.ID
	file *os.File
	// placed is set when the file was moved from tmp to packs.
	placed bool
}

// Begin takes the write lock and removes what an interrupted transaction has left.
func (d *Dir) Begin(ctx context.Context) (*Transaction, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	writer, err := d.lock()
	if err != nil {
		return nil, err
	}
	newest := uint64(0)
	err = d.cleanUp(writer)
	if err == nil {
		err = d.mergeSmall(ctx, writer)
	}
	if err == nil {
		if newest, err = d.Newest(); errors.Is(err, ErrNoGeneration) {
			err = nil
		}
	}
	if err != nil {
		writer.close()
		return nil, fmt.Errorf("begin a generation in %s: %w", d.Path(), err)
	}
	return &Transaction{dir: d, writer: writer, generation: newest + 1}, nil
}

// Generation returns the number of the new generation.
func (t *Transaction) Generation() uint64 { return t.generation }

// NewPack creates an empty pack, for a Writer here or in another process. The caller closes the
// file.
func (t *Transaction) NewPack() (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, ErrTransactionEnded
	}
	id, file, err := newPack(t.writer.tmp, t.dir.store)
	if err != nil {
		return nil, err
	}
	if err := t.sameOwner(file); err != nil {
		_ = file.Close()
		_ = t.writer.tmp.remove(packName(id))
		return nil, err
	}
	kept, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = file.Close()
		_ = t.writer.tmp.remove(packName(id))
		return nil, &os.PathError{Op: "open", Path: file.Name(), Err: err}
	}
	t.packs = append(t.packs, pending{id: id, file: os.NewFile(uintptr(kept), file.Name())})
	return file, nil
}

// Drop removes a pack from the transaction, whatever its content.
func (t *Transaction) Drop(pack *os.File) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.packs, func(p pending) bool { return p.file.Name() == pack.Name() })
	if t.ended || at < 0 {
		return nil
	}
	dropped := t.packs[at]
	t.packs = slices.Delete(t.packs, at, at+1)
	return errors.Join(dropped.file.Close(), t.writer.tmp.remove(packName(dropped.id)))
}

// sameOwner refuses to mix files of several owners. Each could be read only by its owner, so only
// root could use the image.
func (t *Transaction) sameOwner(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	image, err := t.dir.marker.Stat()
	if err != nil {
		return err
	}
	if owner, mine := ownerOf(image), ownerOf(info); owner.uid != mine.uid {
		return fmt.Errorf(
			"write into %s: %w: it belongs to uid %d, but new files would belong to uid %d: use another directory",
			t.dir.Path(),
			ErrOwner,
			owner.uid,
			mine.uid,
		)
	}
	return nil
}

// Flush syncs what was written so far, which is most of the time of a Commit.
func (t *Transaction) Flush(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrTransactionEnded
	}
	return t.flush(ctx)
}

func (t *Transaction) flush(ctx context.Context) error {
	for _, pack := range t.packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := pack.file.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// Commit makes the generation part of the image: packs first, the sealed manifest last. All writers
// must be closed. On failure the image is as before. The transaction has ended in any case.
func (t *Transaction) Commit(ctx context.Context, sealed []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrTransactionEnded
	}
	err := t.commit(ctx, sealed)
	if err != nil {
		err = fmt.Errorf("commit generation %d of %s: %w", t.generation, t.dir.Path(), err)
	}
	return errors.Join(err, t.end(err == nil))
}

// commit checks that the manifest is complete and flushes the packs before it publishes them.
func (t *Transaction) commit(ctx context.Context, sealed []byte) error {
	m, _, err := image.Inspect(sealed)
	if err != nil {
		return err
	}
	if m.Generation != t.generation {
		return fmt.Errorf("%w: the manifest is that of generation %d", image.ErrMalformed, m.Generation)
	}
	if err := t.dropEmpty(); err != nil {
		return err
	}
	if !t.headOnly {
		if err := t.checkComplete(ctx, m); err != nil {
			return err
		}
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	name := newID().String() + generationSuffix
	if err := t.writer.tmp.create(name, sealed); err != nil {
		return err
	}
	if err := t.place(); err != nil {
		return err
	}
	return t.publish(name)
}

// dropEmpty removes packs without contents.
func (t *Transaction) dropEmpty() error {
	var kept []pending
	for i, pack := range t.packs {
		info, err := pack.file.Stat()
		if err != nil {
			t.packs = append(kept, t.packs[i:]...)
			return err
		}
		if info.Size() > image.PackHeaderBytes+image.TrailerBytes {
			kept = append(kept, pack)
			continue
		}
		_ = pack.file.Close()
		_ = t.writer.tmp.remove(packName(pack.id))
	}
	t.packs = kept
	return nil
}

// reader returns a reader of the packs of the image, of the transaction, and of other images.
func (t *Transaction) reader(others ...*Dir) (_ *contents.Reader, done func(), err error) {
	var old []*os.File
	for _, d := range append([]*Dir{t.dir}, others...) {
		packs, err := d.Packs()
		if err != nil {
			closeAll(old)
			return nil, nil, err
		}
		old = append(old, packs...)
	}
	files := old
	for _, pack := range t.packs {
		files = append(files[:len(files):len(files)], pack.file)
	}
	reader, err := contents.NewReader(files)
	if err != nil {
		closeAll(old)
		return nil, nil, err
	}
	return reader, func() { closeAll(old) }, nil
}

// checkComplete checks that all contents of the manifest exist.
func (t *Transaction) checkComplete(ctx context.Context, m *image.Manifest) error {
	reader, done, err := t.reader()
	if err != nil {
		return err
	}
	defer done()
	if damaged := reader.Damaged(); len(damaged) > 0 {
		for _, pack := range t.packs {
			if _, err := contents.LoadIndex(pack.file); err != nil {
				return fmt.Errorf("%s: %w", pack.file.Name(), err)
			}
		}
	}
	return walk(ctx, reader, m, func(_ string, chunk image.Chunk) error {
		if !reader.Has(chunk.Hash) {
			return fmt.Errorf("%w: %s", contents.ErrMissing, chunk.Hash)
		}
		return nil
	})
}

// place moves the packs to their final directory. The journal lets the next writer undo that if
// this one dies.
func (t *Transaction) place() error {
	if len(t.packs) == 0 {
		return nil
	}
	j := journal{generation: t.generation}
	for _, pack := range t.packs {
		j.packs = append(j.packs, pack.id)
	}
	if err := t.writer.tmp.create(journalName, j.encode()); err != nil {
		return err
	}
	if err := t.writer.tmp.sync(); err != nil {
		return err
	}
	for i, pack := range t.packs {
		if err := t.writer.tmp.rename(packName(pack.id), t.dir.packs, packName(pack.id)); err != nil {
			return err
		}
		t.packs[i].placed = true
	}
	return t.dir.packs.sync()
}

// publish makes the generation visible.
func (t *Transaction) publish(name string) error {
	final := generationName(t.generation)
	if err := t.writer.tmp.rename(name, t.dir.generations, final); err != nil {
		return err
	}
	err := t.dir.generations.sync()
	if err == nil {
		return nil
	}
	// It may or may not be on the disk, but must not be.
	if removed := t.dir.generations.remove(final); removed == nil {
		_ = t.dir.generations.sync()
	}
	return err
}

// Abort undoes the transaction. It may be called more than once, and after Commit. What cannot be
// removed now is removed by the next writer.
func (t *Transaction) Abort() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	return t.end(false)
}

// end cleans tmp and releases the lock. Errors of cleaning up do not undo a commit.
func (t *Transaction) end(committed bool) (err error) {
	t.ended = true
	for _, pack := range t.packs {
		_ = pack.file.Close()
		if pack.placed && !committed {
			err = errors.Join(err, t.dir.packs.remove(packName(pack.id)))
		}
	}
	if !committed {
		err = errors.Join(err, t.dir.packs.sync())
	}
	err = errors.Join(err, t.dir.cleanUp(t.writer))
	if t.dir.fresh && !committed {
		err = errors.Join(err, t.dir.unmake(t.writer))
	}
	t.dir.fresh = false
	t.writer.close()
	if committed {
		return nil
	}
	return err
}
