package retention

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// endedImage is an image that no program uses.
type endedImage struct {
	name, path string
	// ended is when phosd first saw that no program uses it, or when it last changed, if that is
	// later.
	ended, changed time.Time
	// empty means that it has no generation.
	empty bool
	// foreign means that another machine has written it: its program may run there.
	foreign bool
}

// ours matches the names that policy.Program.Name returns.
var ours = regexp.MustCompile(`-(\d+)-\d{8}T\d{6}$`)

// openBelow opens a directory below another, without links and mounts.
func openBelow(parent *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := unix.Openat2(int(parent.Fd()), name, &how)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(parent.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(parent.Name(), name)), nil
}

// openAs is openBelow with a user's rights.
func openAs(parent *os.File, as fsuid.Rights, name string) (dir *os.File, err error) {
	err = as.Do(func() (err error) {
		dir, err = openBelow(parent, name)
		return err
	})
	return dir, err
}

// list lists a user's images that no program uses, the one that ended first first.
func (i *Images) list(user *os.File, as fsuid.Rights) (images []endedImage, err error) {
	if _, err := user.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := user.Readdirnames(maxImages)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, name := range names {
		parts := ours.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		if image, ok := i.inspect(user, as, name); ok && i.unused(as.UID, image.path, parts[1]) {
			image.ended = i.endedAt(image.path, image.changed)
			images = append(images, image)
		}
	}
	slices.SortFunc(images, func(a, b endedImage) int {
		return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.name, b.name))
	})
	return images, nil
}

// unused reports whether no program uses an image. A process with the pid in its name may be the
// program, perhaps under another phosd.
func (i *Images) unused(uid uint32, path, pid string) bool {
	used := i.options.Wanted(uid, path)
	if number, err := strconv.Atoi(pid); err == nil && !used {
		if id, err := proc.Of(number); err == nil {
			owner, err := id.UID()
			used = err == nil && owner == uid
		}
	}
	if used {
		i.mu.Lock()
		defer i.mu.Unlock()
		if _, known := i.ended[path]; known {
			delete(i.ended, path)
			i.changed = true
		}
	}
	return !used
}

// inspect looks at an image. It returns false for a directory that
// holds anything else, and for an image that is in use.
func (i *Images) inspect(user *os.File, as fsuid.Rights, name string) (endedImage, bool) {
	image := endedImage{name: name}
	dir, err := openAs(user, as, name)
	if err != nil {
		return image, false
	}
	defer dir.Close()
	// As Wanted knows it: without links in the way to checkpoint.dir.
	if image.path, err = proc.PathOf(int(dir.Fd())); err != nil {
		return image, false
	}
	var info unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &info); err != nil {
		return image, false
	}
	image.changed = time.Unix(info.Mtim.Unix())
	opened, err := store.Open(dir, store.As(as.Do))
	if errors.Is(err, store.ErrNoImage) {
		image.empty = true // remove removes nothing but the rest of an image
		return image, true
	}
	if err != nil {
		return image, false
	}
	defer opened.Close()
	all, err := opened.Generations()
	if err != nil {
		return image, false
	}
	if image.empty = len(all) == 0; !image.empty {
		newest := filepath.Join("generations", filepath.Base(opened.ManifestPath(all[len(all)-1])))
		m, err := opened.Inspect(all[len(all)-1])
		image.foreign = err == nil && m.Host.Name != i.options.Host
		err = as.Do(func() error { return unix.Fstatat(int(dir.Fd()), newest, &info, unix.AT_SYMLINK_NOFOLLOW) })
		if err == nil {
			image.changed = time.Unix(info.Mtim.Unix())
		}
	}
	return image, true
}

// measure returns what an image takes of the disk; 0 if that is unknown.
func (i *Images) measure(e endedImage, user *os.File, as fsuid.Rights) uint64 {
	dir, err := openAs(user, as, e.name)
	if err != nil {
		return 0
	}
	defer dir.Close()
	bytes, err := archive.UsedBytes(i.options.Life, dir)
	if err != nil {
		return 0
	}
	return bytes
}

// endedAt returns when an image was first seen without a program. An image that has changed since
// is younger: the clock may have been wrong.
func (i *Images) endedAt(path string, changed time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	since, known := i.ended[path]
	if !known || since.After(now) {
		since = now
		i.ended[path], i.changed = since, true
	}
	if changed.After(since) && changed.Before(now) {
		return changed
	}
	return since
}

// remove removes an image and its directory, with its user's rights.
func (i *Images) remove(user *os.File, as fsuid.Rights, image endedImage, reason string) {
	removed, err := removeImage(user, as, image.name, image.empty)
	switch {
	case errors.Is(err, store.ErrLocked), errors.Is(err, store.ErrForeign):
		i.options.Log.Debug("image not removed", "dir", image.path, "error", err)
		return
	case err != nil:
		i.options.Log.Warn("image not removed", "dir", image.path, "uid", as.UID, "error", err)
		return
	}
	i.mu.Lock()
	delete(i.ended, image.path)
	i.changed = true
	i.mu.Unlock()
	i.options.Removed(reason)
	i.options.Log.Info("image removed",
		"dir", image.path, "uid", as.UID, "reason", reason, "ended", image.ended.UTC().Format(time.RFC3339),
		"generations", len(removed.Generations), "bytes", removed.Bytes)
}

// errNotEmpty is returned when an image has got a generation since it was listed.
var errNotEmpty = errors.New("the image has a generation")

// removeImage removes an image and its directory. If empty is set, the image must have no
// generation.
func removeImage(user *os.File, as fsuid.Rights, name string, empty bool) (removed store.Cleaned, err error) {
	dir, err := openAs(user, as, name)
	if err != nil {
		return removed, err
	}
	defer dir.Close()
	if empty {
		planned, err := store.PlanRemove(dir, store.As(as.Do))
		if err != nil && !errors.Is(err, store.ErrNoImage) {
			return removed, err
		}
		if len(planned.Generations) > 0 {
			return removed, errNotEmpty
		}
	}
	if removed, err = store.Remove(dir, store.As(as.Do)); err != nil && !errors.Is(err, store.ErrNoImage) {
		return removed, err
	}
	return removed, as.Do(func() error { return unix.Unlinkat(int(user.Fd()), name, unix.AT_REMOVEDIR) })
}

// RemoveEmpty removes the image of a program that has ended, if it has no generation.
func RemoveEmpty(user *os.File, as fsuid.Rights, name string) error {
	_, err := removeImage(user, as, name, true)
	if errors.Is(err, errNotEmpty) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// forgetMissing removes images of a user from the index that are gone.
func (i *Images) forgetMissing(uid uint32) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for path := range i.ended {
		if filepath.Base(filepath.Dir(path)) != strconv.FormatUint(uint64(uid), 10) {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			delete(i.ended, path)
			i.changed = true
		}
	}
}

// indexName returns the name of the record of the images below a directory.
func indexName(base string) string {
	sum := sha256.Sum256([]byte(base))
	return hex.EncodeToString(sum[:16])
}

// saveIndex writes the index if it has changed.
func (i *Images) saveIndex() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.changed {
		return
	}
	text, err := json.Marshal(i.ended)
	if err == nil {
		err = i.options.Records.Save(i.index, text)
	}
	if err != nil {
		i.options.Log.Error("save the index of images", "error", err)
		return
	}
	i.changed = false
}
