package retention

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

const (
	golden = "../../../../ckpt/store/testdata/golden/v1/image"
	// goldenHost is the machine that its manifests name.
	goldenHost = "golden"
	user       = 61243
	// noPID is more than a pid can be.
	noPID = 1 << 23
)

// records keeps records in memory.
type records map[string][]byte

func (r records) Save(name string, text []byte) error { r[name] = text; return nil }
func (r records) All() (map[string][]byte, error)     { return maps.Clone(r), nil }

// lab is a directory with images of one user.
type lab struct {
	t       *testing.T
	options Options
	kept    records
	removed map[string]int
	wanted  map[string]bool
	// share is how many bytes the user may have; 0: any number.
	share uint64
}

// newLab makes an empty directory for a user's images.
func newLab(t *testing.T, keep time.Duration) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a user's directories")
	}
	base, err := os.MkdirTemp("/var/tmp", "phos-retention-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	l := &lab{t: t, kept: records{}, removed: map[string]int{}, wanted: map[string]bool{}}
	l.options = Options{
		Base: base, Host: goldenHost, Keep: keep, Records: l.kept, Life: t.Context(), Log: slog.New(slog.DiscardHandler),
		Wanted:  func(_ uint32, path string) bool { return l.wanted[filepath.Base(path)] },
		Removed: func(reason string) { l.removed[reason]++ },
		Measure: func(_ uint32, bytes uint64) error {
			if l.share > 0 && bytes > l.share {
				return fmt.Errorf("%w: the share", api.ErrExhausted)
			}
			return nil
		},
		Share: func(uint32) (uint64, bool, bool) { return l.share, l.share > 0, false },
	}
	l.must(os.Chmod(base, 0o711))
	l.must(os.Mkdir(l.path(""), 0o700))
	l.must(os.Chown(l.path(""), user, user))
	return l
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// path returns the path of a directory of the user.
func (l *lab) path(name string) string { return filepath.Join(l.options.Base, fmt.Sprint(user), name) }

// name returns the n-th image's name.
func (l *lab) name(n int) string { return fmt.Sprintf("job-%d-20300102T030405", noPID+n) }

// image makes an image of the user.
func (l *lab) image(dir string) {
	l.t.Helper()
	l.must(os.CopyFS(dir, os.DirFS(golden)))
	l.give(dir)
}

// give makes everything below a directory the user's, and old.
func (l *lab) give(dir string) {
	l.t.Helper()
	l.must(filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		long := unix.NsecToTimespec(time.Now().Add(-1000 * time.Hour).UnixNano())
		return errors.Join(
			os.Lchown(path, user, user),
			unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{long, long}, unix.AT_SYMLINK_NOFOLLOW),
		)
	}))
}

// look lets a new phosd look at the images, as if all times in its index were that much earlier.
func (l *lab) look(earlier time.Duration) {
	l.t.Helper()
	i, err := Open(l.options)
	l.must(err)
	for path, at := range i.ended {
		i.ended[path] = at.Add(-earlier)
	}
	i.changed = true
	i.lookAtAll()
}

// left returns the names in the user's directory.
func (l *lab) left() (names []string) {
	l.t.Helper()
	entries, err := os.ReadDir(l.path(""))
	l.must(err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestAge: an image of an ended program stays for a time that counts from its program's end, also
// while no phosd runs.
func TestAge(t *testing.T) {
	l := newLab(t, time.Hour)
	for n := range 2 {
		l.image(l.path(l.name(n)))
	}
	l.wanted[l.name(1)] = true
	l.look(0) // the first program has just ended
	l.look(59 * time.Minute)
	if want := []string{l.name(0), l.name(1)}; !slices.Equal(l.left(), want) {
		t.Fatalf("within the time: got %q, want %q", l.left(), want)
	}
	l.look(2 * time.Minute)
	if want := []string{l.name(1)}; !slices.Equal(l.left(), want) || l.removed[Age] != 1 {
		t.Fatalf("after the time: got %q, want %q; removed %v", l.left(), want, l.removed)
	}
	l.wanted = map[string]bool{}
	l.look(1000 * time.Hour) // it has been seen in use
	if want := []string{l.name(1)}; !slices.Equal(l.left(), want) {
		t.Fatalf("just ended: got %q, want %q", l.left(), want)
	}
	l.options.Keep = 0
	l.look(1000 * time.Hour)
	if want := []string{l.name(1)}; !slices.Equal(l.left(), want) {
		t.Errorf("without a limit of time: got %q, want %q", l.left(), want)
	}
	l.options.Keep = time.Hour
	l.look(time.Hour)
	if got := l.left(); len(got) != 0 {
		t.Errorf("at the end: got %q, want nothing", got)
	}
}

// TestStays: what is no image of an ended program stays, and so does everything behind links.
func TestStays(t *testing.T) {
	l := newLab(t, time.Second)
	elsewhere := filepath.Join(l.options.Base, "elsewhere")
	l.image(elsewhere)
	outside := t.TempDir()
	l.must(os.Symlink(elsewhere, l.path(l.name(0))))
	l.image(l.path("mine")) // not phosd's name
	l.image(l.path(l.name(1)))
	l.must(os.WriteFile(l.path(l.name(1)+"/notes"), nil, 0o600))
	l.image(l.path(l.name(2))) // in use
	l.must(os.Mkdir(l.path(l.name(3)), 0o700))
	l.must(os.Symlink(filepath.Join(elsewhere, "packs"), l.path(l.name(3)+"/packs")))
	// An image of root's in a directory of the user's cannot be removed with the user's rights.
	l.must(os.CopyFS(l.path(l.name(4)), os.DirFS(golden)))
	l.must(os.Symlink(outside, l.path(l.name(5))))
	l.must(os.Mkdir(filepath.Join(l.options.Base, "17"), 0o700)) // another owner's
	l.image(filepath.Join(l.options.Base, "17", l.name(6)))
	// A process that may be the program of another phosd.
	l.image(l.path(fmt.Sprintf("job-%d-20300102T030405", os.Getpid())))
	dir, err := os.Open(l.path(l.name(2)))
	l.must(err)
	defer dir.Close()
	open, err := store.Open(dir)
	l.must(err)
	defer open.Close()
	l.must(unix.Mount("phos-test", l.mountPoint(l.name(7)), "tmpfs", 0, ""))
	defer func() { _ = unix.Unmount(l.path(l.name(7)), unix.MNT_DETACH) }()
	l.image(l.path(l.name(7) + "/x"))
	before := l.left()
	l.look(0)
	l.look(time.Hour)
	// The pid in the last name is root's process and not the user's.
	before = slices.DeleteFunc(before, func(name string) bool {
		return name == fmt.Sprintf("job-%d-20300102T030405", os.Getpid())
	})
	if got := l.left(); !slices.Equal(got, before) || l.removed[Age] != 1 {
		t.Errorf("got %q, want %q; removed %v", got, before, l.removed)
	}
	for _, path := range []string{elsewhere, filepath.Join(l.options.Base, "17", l.name(6)), l.path(l.name(4))} {
		if all, err := filepath.Glob(path + "/generations/*"); len(all) == 0 {
			t.Errorf("%s: got no generation (%v)", path, err)
		}
	}
}

// mountPoint makes a directory of the user.
func (l *lab) mountPoint(name string) string {
	l.must(os.Mkdir(l.path(name), 0o700))
	return l.path(name)
}

// TestEmptyImages: images without a generation, and what is left of them, are removed soon.
func TestEmptyImages(t *testing.T) {
	l := newLab(t, 0)
	l.must(os.Mkdir(l.path(l.name(0)), 0o700))
	l.must(os.Mkdir(l.path(l.name(1)), 0o700))
	dir, err := os.Open(l.path(l.name(1)))
	l.must(err)
	defer dir.Close()
	made, err := store.Init(dir)
	l.must(err)
	made.Close()
	l.give(l.path(""))
	l.wanted[l.name(2)] = true
	l.must(os.Mkdir(l.path(l.name(2)), 0o700))
	l.image(l.path(l.name(3)))
	l.must(os.Mkdir(l.path(l.name(4)), 0o700)) // perhaps another machine's first checkpoint
	l.look(0)
	if want := []string{l.name(2), l.name(3), l.name(4)}; !slices.Equal(l.left(), want) || l.removed[Empty] != 2 {
		t.Errorf("got %q, want %q; removed %v", l.left(), want, l.removed)
	}
}

// TestShare: if a user's share is used up, the oldest images of ended programs are removed, and no
// more than needed; none, if that would not suffice.
func TestShare(t *testing.T) {
	l := newLab(t, 1000*time.Hour)
	for n := range 4 {
		l.image(l.path(l.name(n)))
		l.look(time.Minute) // each is younger than the last
	}
	l.wanted[l.name(0)] = true // the oldest
	i, err := Open(l.options)
	l.must(err)
	images, err := os.Open(l.path(""))
	l.must(err)
	defer images.Close()
	one := i.measure(endedImage{name: l.name(0)}, images, fsuid.Rights{UID: user, GID: user})
	if one == 0 {
		t.Fatal("an image takes nothing")
	}
	l.options.Host = "other"
	elsewhere, err := Open(l.options)
	l.must(err)
	l.share = 3 * one
	if err := elsewhere.MakeRoom(user); err == nil || len(l.left()) != 4 {
		t.Errorf("images of another machine: got %v, %q, want an error and four images", err, l.left())
	}
	l.share = one / 2
	if err := i.MakeRoom(user); err == nil || len(l.left()) != 4 {
		t.Errorf("share below the running program's image: got %v, %q, want an error and four images", err, l.left())
	}
	l.share = 2*one + one/2
	i.options.Keep = 0
	if err := i.MakeRoom(user); err == nil || len(l.left()) != 4 {
		t.Errorf("no image is to be removed: got %v, %q, want an error and four images", err, l.left())
	}
	i.options.Keep = 1000 * time.Hour
	if err := i.MakeRoom(user); err != nil {
		t.Error(err)
	}
	if want := []string{l.name(0), l.name(3)}; !slices.Equal(l.left(), want) || l.removed[Quota] != 2 {
		t.Errorf("got %q, want %q; removed %v", l.left(), want, l.removed)
	}
}
