package store

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// Dir is an open image directory. It is safe for concurrent use. While it is open, Clean fails.
type Dir struct {
	root, generations, packs folder
	marker                   *os.File
	store                    image.ID
	// fresh is set if Init has created the image and no generation was committed yet.
	fresh bool
}

// Option changes how a directory is used.
type Option func(*folder)

// As makes everything that touches names in the directory (open, create, rename, remove) run
// through a function. The function may run it with the rights of the directory's owner.
func As(run func(func() error) error) Option { return func(d *folder) { d.as = run } }

// Open opens an image. The caller keeps the descriptor.
func Open(dir *os.File, options ...Option) (*Dir, error) {
	root, err := rootOf(dir, options)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root}
	if err := d.open(); err != nil {
		d.Close()
		return nil, fmt.Errorf("open image %s: %w", dir.Name(), err)
	}
	return d, nil
}

// Init opens an image, or creates one in an empty directory. It fails if the directory holds
// anything else.
func Init(dir *os.File, options ...Option) (*Dir, error) {
	if d, err := Open(dir, options...); !errors.Is(err, ErrNoImage) {
		return d, err
	}
	root, err := rootOf(dir, options)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root}
	made, err := d.create()
	if err == nil {
		if err = d.open(); err != nil && made {
			d.takeBack()
		}
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("make image %s: %w", dir.Name(), err)
	}
	d.fresh = made
	return d, nil
}

// takeBack removes an image that was just created and cannot be opened.
func (d *Dir) takeBack() {
	if d.marker != nil {
		unlock(d.marker)
		d.marker = nil
	}
	writer, err := d.lock()
	if err != nil {
		return // another process has the lock, or the disk fails
	}
	defer writer.close()
	generations, err := d.root.folder(generationsName)
	if err != nil {
		return
	}
	names, err := generations.names()
	generations.close()
	if err == nil && len(names) == 0 {
		_ = d.unmake(writer)
	}
}

// rootOf duplicates the descriptor, because the caller may close it.
func rootOf(dir *os.File, options []Option) (folder, error) {
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return folder{}, &os.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	root := folder{os.NewFile(uintptr(fd), dir.Name()), func(f func() error) error { return f() }}
	for _, option := range options {
		option(&root)
	}
	return root, nil
}

func (d *Dir) open() error {
	marker, err := d.root.open(markerName, unix.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNoImage
	}
	if err != nil {
		return err
	}
	d.marker = marker
	// The lock keeps Clean out, which fails on file systems without locks, too.
	if err := lock(marker, d.Path(), unix.LOCK_SH); err != nil && !errors.Is(err, ErrNoLocks) {
		return err
	}
	raw, err := d.root.read(markerName, image.MarkerBytes)
	if err != nil {
		return err
	}
	decoded, err := image.DecodeMarker(raw)
	if err != nil {
		return fmt.Errorf("read %s: %w", marker.Name(), err)
	}
	d.store = decoded.Store
	if d.generations, err = d.root.folder(generationsName); err != nil {
		return err
	}
	d.packs, err = d.root.folder(packsName)
	return err
}

// create lays an image out. The marker comes last: without it the directory is not an image, and
// create may be repeated.
func (d *Dir) create() (made bool, err error) {
	if err := d.checkEmpty(); err != nil {
		return false, err
	}
	writer, err := d.lock()
	if err != nil {
		return false, err
	}
	defer writer.close()
	defer func() {
		if err != nil {
			_ = d.unmake(writer) // undo as much as possible; the disk may be full
		}
	}()
	for _, name := range []string{generationsName, packsName} {
		made, err := d.root.makeFolder(name)
		if err != nil {
			return false, err
		}
		made.close()
	}
	name := newID().String() + markerSuffix
	if err := writer.tmp.create(name, image.Marker{Store: newID()}.Encode()); err != nil {
		return false, err
	}
	if err := writer.tmp.rename(name, d.root, markerName); err != nil {
		_ = writer.tmp.remove(name)
		if errors.Is(err, os.ErrExist) {
			return false, nil // another process was faster
		}
		return false, err
	}
	return true, d.root.sync()
}

// checkEmpty accepts a directory that is empty or holds the rest of an interrupted Init.
func (d *Dir) checkEmpty() error {
	names, err := d.root.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains([]string{lockName, generationsName, packsName, tmpName, markerName}, name) {
			return d.foreign(d.root.path(name))
		}
		if name == generationsName || name == packsName {
			below, err := d.root.folder(name)
			if err != nil {
				return err
			}
			inside, err := below.names()
			below.close()
			if err != nil {
				return err
			}
			if len(inside) > 0 {
				return d.foreign(below.path(inside[0]))
			}
		}
	}
	return nil
}

// foreign returns an error for a file that is not part of an image.
func (d *Dir) foreign(path string) error {
	return fmt.Errorf("%w: %s; an image needs a directory that is empty or does not exist", ErrForeign, path)
}

// Path returns the directory's name, for messages.
func (d *Dir) Path() string { return d.root.file.Name() }

// Store returns the random ID of the image.
func (d *Dir) Store() image.ID { return d.store }

// Close closes the image.
func (d *Dir) Close() {
	for _, each := range []folder{d.root, d.generations, d.packs} {
		each.close()
	}
	if d.marker != nil {
		unlock(d.marker)
	}
}

// Generations lists the committed generations, the oldest first.
func (d *Dir) Generations() ([]uint64, error) {
	names, err := d.generations.names()
	if err != nil {
		return nil, err
	}
	var all []uint64
	for _, name := range names {
		if n, ok := parseGeneration(name); ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Newest returns the generation that was committed last.
func (d *Dir) Newest() (uint64, error) {
	all, err := d.Generations()
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("%s: %w: nothing has been saved there yet", d.Path(), ErrNoGeneration)
	}
	return all[len(all)-1], nil
}

// Manifest returns the sealed manifest of a generation; 0 means the newest.
func (d *Dir) Manifest(n uint64) (sealed []byte, err error) {
	if n == 0 {
		if n, err = d.Newest(); err != nil {
			return nil, err
		}
	}
	sealed, err = d.generations.read(generationName(n), image.MaxSignedBytes)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: %d; see: pos_cli image list %s", d.Path(), ErrNoGeneration, n, d.Path())
	}
	return sealed, err
}

// ManifestPath returns the name of the file that Manifest reads, for messages.
func (d *Dir) ManifestPath(n uint64) string {
	if n == 0 {
		n, _ = d.Newest() // cannot fail: the caller has read a manifest
	}
	return d.generations.path(generationName(n))
}

// Inspect reads the manifest of a generation without checking its seal.
func (d *Dir) Inspect(n uint64) (_ *image.Manifest, err error) {
	if n == 0 {
		if n, err = d.Newest(); err != nil {
			return nil, err
		}
	}
	sealed, err := d.Manifest(n)
	if err != nil {
		return nil, err
	}
	m, _, err := image.Inspect(sealed)
	if err == nil && m.Generation != n {
		err = fmt.Errorf("%w: the manifest is that of generation %d", image.ErrMalformed, m.Generation)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.generations.path(generationName(n)), err)
	}
	return m, nil
}

// Reader returns a reader of all packs. The caller must call closePacks.
func (d *Dir) Reader() (reader *contents.Reader, closePacks func(), err error) {
	packs, err := d.Packs()
	if err != nil {
		return nil, nil, err
	}
	if reader, err = contents.NewReader(packs); err != nil {
		closeAll(packs)
		return nil, nil, err
	}
	return reader, func() { closeAll(packs) }, nil
}

// Packs opens all packs for reading. The caller closes them. They remain readable if the image is
// pruned or removed.
func (d *Dir) Packs() ([]*os.File, error) { return d.packsUpTo(maxPacks) }

// packsUpTo opens all packs, at most so many.
func (d *Dir) packsUpTo(limit int) ([]*os.File, error) {
	for range openAttempts {
		packs, err := d.openPacks(limit)
		if !errors.Is(err, os.ErrNotExist) {
			return packs, err
		}
		// A pack was pruned between listing and opening.
	}
	return nil, fmt.Errorf("open packs of %s: they keep changing", d.Path())
}

// maxPacks is how many packs are opened at a time, except for removing some.
const maxPacks = 4000

// openPacks opens the packs of one listing.
func (d *Dir) openPacks(limit int) (packs []*os.File, err error) {
	names, err := d.packs.names()
	if err != nil {
		return nil, err
	}
	if len(names) > limit {
		return nil, fmt.Errorf(
			"open packs of %s: %w: %d packs of at most %d; remove old generations: pos_cli image prune %s --keep N",
			d.Path(),
			contents.ErrTooLarge,
			len(names),
			limit,
			d.Path(),
		)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, ok := parsePack(name); !ok {
			continue
		}
		pack, err := d.packs.open(name, unix.O_RDONLY)
		if err != nil {
			closeAll(packs)
			return nil, err
		}
		packs = append(packs, pack)
	}
	return packs, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}
