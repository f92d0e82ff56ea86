package store

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Cleaned says what Clean has removed.
type Cleaned struct {
	Generations []uint64 `json:"generations"`
	Packs       int      `json:"packs"`
	Bytes       uint64   `json:"bytes"`
}

// Clean removes an image and leaves the directory empty. If the directory holds anything else, or
// the image is in use, it removes nothing. After an interruption it may be called again.
func (d *Dir) Clean() (Cleaned, error) {
	removed, err := d.clean()
	if err != nil {
		err = fmt.Errorf("remove image %s: %w", d.Path(), err)
	}
	return removed, err
}

// PlanClean returns what Clean would remove, or why it would fail. It removes nothing.
func (d *Dir) PlanClean() (Cleaned, error) {
	all, err := d.emptied(func(held) error { return nil })
	if err != nil {
		err = fmt.Errorf("remove image %s: %w", d.Path(), err)
	}
	return all, err
}

func (d *Dir) clean() (Cleaned, error) { return d.emptied(d.removeAll) }

// emptied locks the image against all other users, lists what must be removed, and calls act.
func (d *Dir) emptied(act func(held) error) (removed Cleaned, err error) {
	writer, err := d.lock()
	if err != nil {
		return removed, err
	}
	defer writer.close()
	alone, err := d.alone()
	if err != nil {
		return removed, err
	}
	defer alone()
	if removed, err = d.inventory(writer); err != nil {
		return removed, err
	}
	return removed, act(writer)
}

// alone locks out all other users of the image until end is called.
func (d *Dir) alone() (end func(), err error) {
	marker, err := d.root.open(markerName, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	_ = flock(int(d.marker.Fd()), unix.LOCK_UN) // otherwise this Dir's own lock would conflict
	end = func() {
		unlock(marker)
		_ = lock(d.marker, d.Path(), unix.LOCK_SH) // the file may have been removed
	}
	if err := lock(marker, d.Path(), unix.LOCK_EX); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// inventory lists what must be removed. It fails if it finds anything else.
func (d *Dir) inventory(writer held) (Cleaned, error) {
	var all Cleaned
	for _, place := range []struct {
		folder
		ours func(string) bool
	}{
		{d.root, isTopName}, {d.generations, isGenerationName}, {d.packs, isPackName}, {writer.tmp, isTemporary},
	} {
		names, err := place.names()
		if err != nil {
			return Cleaned{}, err
		}
		for _, name := range names {
			var stat unix.Stat_t
			err := place.as(func() error { return unix.Fstatat(place.fd(), name, &stat, unix.AT_SYMLINK_NOFOLLOW) })
			if err != nil {
				return Cleaned{}, place.fail("stat", name, err)
			}
			isFolder := place.file == d.root.file && name != markerName && name != lockName
			if !place.ours(name) || (stat.Mode&unix.S_IFMT == unix.S_IFDIR) != isFolder {
				return Cleaned{}, fmt.Errorf(
					"%w: %s does not belong to the image; nothing was removed",
					ErrForeign,
					place.path(name),
				)
			}
			if !isFolder {
				all.Bytes += uint64(stat.Size)
			}
			if n, ok := parseGeneration(name); ok && place.file == d.generations.file {
				all.Generations = append(all.Generations, n)
			}
			if place.file == d.packs.file {
				all.Packs++
			}
		}
	}
	slices.Sort(all.Generations)
	return all, nil
}

func isTopName(name string) bool {
	return slices.Contains([]string{markerName, lockName, generationsName, packsName, tmpName}, name)
}

// isGenerationName reports whether the store could have given a manifest this name.
func isGenerationName(name string) bool {
	_, ours := parseGeneration(name)
	return ours
}

// isPackName reports whether the store could have given a pack this name.
func isPackName(name string) bool {
	_, ours := parsePack(name)
	return ours
}

// removeAll removes the generations first: after that nothing refers to the packs.
func (d *Dir) removeAll(writer held) error {
	for _, place := range []struct {
		folder
		ours func(string) bool
	}{{d.generations, isGenerationName}, {writer.tmp, isTemporary}, {d.packs, isPackName}} {
		names, err := place.names()
		if err != nil {
			return err
		}
		for _, name := range names {
			if !place.ours(name) {
				continue
			}
			if err := place.remove(name); err != nil {
				return err
			}
		}
	}
	return d.unmake(writer)
}

// unmake undoes an Init, if nothing was added since. The caller holds the lock. If it is
// interrupted, Init accepts the directory as empty, and Remove removes the rest.
func (d *Dir) unmake(held) error {
	for _, step := range []func() error{
		func() error { return d.root.remove(markerName) },
		func() error { return d.root.removeFolder(generationsName) },
		func() error { return d.root.removeFolder(packsName) },
		func() error { return d.root.removeFolder(tmpName) },
		func() error { return d.root.remove(lockName) },
	} {
		if err := step(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return d.root.sync()
}

// Discard undoes an Init after which nothing was committed.
func (d *Dir) Discard() error {
	if !d.fresh {
		return nil
	}
	d.fresh = false
	writer, err := d.lock()
	if errors.Is(err, ErrLocked) || errors.Is(err, ErrNoImage) {
		return nil // in use by another process, or already removed
	}
	if err != nil {
		return err
	}
	defer writer.close()
	if all, err := d.Generations(); err != nil || len(all) > 0 {
		return err
	}
	if err := d.cleanUp(writer); err != nil {
		return err
	}
	return d.unmake(writer)
}

// Remove removes the image in a directory, as Clean does, or the rest of an image whose removal or
// creation was interrupted.
func Remove(dir *os.File, options ...Option) (Cleaned, error) {
	return withRemains(dir, options, (*Dir).Clean, func(d *Dir) error {
		writer, err := d.lock()
		if err != nil {
			return err
		}
		defer writer.close()
		if err := d.cleanUp(writer); err != nil {
			return err
		}
		return d.unmake(writer)
	})
}

// PlanRemove returns what Remove would remove, or why it would fail. It removes nothing.
func PlanRemove(dir *os.File, options ...Option) (Cleaned, error) {
	return withRemains(dir, options, (*Dir).PlanClean, func(*Dir) error { return nil })
}

// withRemains calls whole for an image, and remains for the rest of one.
func withRemains(
	dir *os.File,
	options []Option,
	whole func(*Dir) (Cleaned, error),
	remains func(*Dir) error,
) (Cleaned, error) {
	d, err := Open(dir, options...)
	if err == nil {
		defer d.Close()
		return whole(d)
	}
	if !errors.Is(err, ErrNoImage) {
		return Cleaned{}, err
	}
	rest, rootErr := rootOf(dir, options)
	if rootErr != nil {
		return Cleaned{}, rootErr
	}
	d = &Dir{root: rest}
	defer d.Close()
	names, listErr := d.root.names()
	if listErr != nil || len(names) == 0 {
		return Cleaned{}, errors.Join(err, listErr)
	}
	if bad := d.checkEmpty(); bad != nil {
		return Cleaned{}, errors.Join(err, bad)
	}
	return Cleaned{}, remains(d)
}
