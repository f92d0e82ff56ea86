package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/tests/harness"
)

// everything calls all functions that read an image, and returns their results and errors.
func everything(path string) string {
	var out bytes.Buffer
	dir, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer dir.Close()
	d, err := Open(dir)
	if err != nil {
		return err.Error()
	}
	defer d.Close()
	if found, err := d.Verify(context.Background(), nil); err != nil {
		out.WriteString(err.Error())
	} else {
		for _, each := range found.Problems {
			out.WriteString(each.String())
		}
	}
	if sealed, err := d.Manifest(1); err != nil {
		out.WriteString(err.Error())
	} else {
		out.Write(sealed)
	}
	if err := WriteStream(context.Background(), d, 1, &out); err != nil {
		out.WriteString(err.Error())
	}
	return out.String()
}

// secret stands for a file that only root can read.
const secret = "the hash of root's password"

// TestNoLinksAreFollowed replaces each file and directory of an image by a link to a valid one, a
// pipe, a device, or a directory. None may be opened.
func TestNoLinksAreFollowed(t *testing.T) {
	path := t.TempDir()
	d, err := Init(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, small(1))
	d.Close()
	outside := t.TempDir()
	overwrite(t, filepath.Join(outside, "shadow"), []byte(secret))
	names := []string{markerName, lockName, generationsName, packsName, "generations/000001"}
	packs, _ := filepath.Glob(filepath.Join(path, packsName, "*"))
	for _, pack := range packs {
		names = append(names, packsName+"/"+filepath.Base(pack))
	}
	for _, name := range names {
		whole, away := filepath.Join(path, name), filepath.Join(outside, "away")
		if err := os.Rename(whole, away); err != nil {
			t.Fatal(err)
		}
		for what, lay := range map[string]func() error{
			"a link to what was there": func() error { return os.Symlink(away, whole) },
			"a link to a secret":       func() error { return os.Symlink(filepath.Join(outside, "shadow"), whole) },
			"a relative link":          func() error { return os.Symlink("../../../../../../etc/passwd", whole) },
			"a magic link":             func() error { return os.Symlink("/proc/self/root/etc/passwd", whole) },
			"a pipe":                   func() error { return unix.Mkfifo(whole, 0o600) },
			"a directory":              func() error { return os.Mkdir(whole, 0o700) },
			"a socket":                 func() error { return unix.Mknod(whole, unix.S_IFSOCK|0o600, 0) },
		} {
			if err := lay(); err != nil {
				t.Fatal(err)
			}
			saw := everything(path)
			if strings.Contains(saw, secret) || strings.Contains(saw, "root:x:") {
				t.Errorf("%s instead of %s: leaked a file", what, name)
			}
			isFolder := name == generationsName || name == packsName
			if !strings.Contains(saw, name) && !(isFolder && what == "a directory") {
				t.Errorf("%s instead of %s was accepted: %.300q", what, name, saw)
			}
			if err := os.Remove(whole); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(away, whole); err != nil {
			t.Fatal(err)
		}
	}
	if found := problems(t, path); len(found) > 0 {
		t.Errorf("afterwards: %v", found)
	}
}

// TestSwappedInUse replaces a pack, a generation and a directory by links to secrets, back and
// forth, while the image is read and written.
func TestSwappedInUse(t *testing.T) {
	path, outside := t.TempDir(), t.TempDir()
	d, err := Init(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, small(1))
	d.Close()
	for _, name := range []string{packsName, tmpName} {
		if err := os.Mkdir(filepath.Join(outside, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	packs, _ := filepath.Glob(filepath.Join(path, packsName, "*"))
	targets := map[string]string{
		packs[0]: "shadow",
		filepath.Join(path, "generations/000001"): "shadow",
		filepath.Join(path, tmpName):              tmpName,
		filepath.Join(path, packsName):            packsName,
	}
	overwrite(t, filepath.Join(outside, "shadow"), []byte(secret))
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			for whole, target := range targets {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Symlink(filepath.Join(outside, target), whole+".link")
				_ = unix.Renameat2(unix.AT_FDCWD, whole+".link", unix.AT_FDCWD, whole, unix.RENAME_EXCHANGE)
				runtime.Gosched()
				_ = unix.Renameat2(unix.AT_FDCWD, whole+".link", unix.AT_FDCWD, whole, unix.RENAME_EXCHANGE)
				_ = os.Remove(whole + ".link")
			}
		}
	}()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if saw := everything(path); strings.Contains(saw, secret) {
			t.Error("a secret was leaked")
		}
		if d, err := Open(openDir(t, path)); err == nil {
			_, _ = tryPut(d, small(2)) // may fail, but must not write elsewhere
			_, _ = d.Prune(context.Background(), Keep{Newest: 1})
			d.Close()
		}
	}
	close(stop)
	<-ended
	for name, content := range filesOf(t, outside) {
		if name != "shadow" || string(content) != secret {
			t.Errorf("%s was written outside of the image", name)
		}
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	path := t.TempDir()
	first, second := initDir(t, path), initDir(t, path)
	transaction, err := first.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, err = second.Begin(context.Background())
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || !strings.Contains(err.Error(), path) {
		t.Errorf("a second writer: %v", err)
	}
	if _, err := second.Prune(context.Background(), Keep{Newest: 1}); !errors.Is(err, ErrLocked) {
		t.Errorf("prune beside a writer: %v", err)
	}
	if err := transaction.Abort(); err != nil {
		t.Fatal(err)
	}
	put(t, initDir(t, path), small(1))
}

// TestOwnerRights uses the rights of an unprivileged user, like phosd for the owner of an
// image.
func TestOwnerRights(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	path := t.TempDir()
	const user = 65534
	if err := errors.Join(os.Chown(path, user, user), os.Chmod(filepath.Dir(path), 0o755)); err != nil {
		t.Fatal(err)
	}
	as := As(func(f func() error) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, _ = unix.SetfsuidRetUid(user)
		defer func() { _, _ = unix.SetfsuidRetUid(0) }()
		return f()
	})
	d, err := Init(openDir(t, path), as)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	put(t, d, small(1))
	check(t, d, 1, small(1))
	for name := range filesOf(t, path) {
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(path, name), &stat); err != nil || stat.Uid != user || stat.Mode&0o077 != 0 {
			t.Errorf("%s belongs to %d, mode %o, %v", name, stat.Uid, stat.Mode, err)
		}
	}
	// Files that only root may read stay closed.
	if err := os.Chown(filepath.Join(path, "generations/000001"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Manifest(1); !errors.Is(err, unix.EACCES) {
		t.Errorf("root's manifest: %v", err)
	}
}

// TestMissingGeneration checks the error for a missing generation.
func TestMissingGeneration(t *testing.T) {
	d := initDir(t, t.TempDir())
	for _, n := range []uint64{0, 7} {
		if _, err := d.Manifest(n); !errors.Is(err, ErrNoGeneration) {
			t.Errorf("generation %d: %v", n, err)
		}
	}
}

// TestCommitIncomplete: a manifest with missing contents or a wrong number is not committed.
func TestCommitIncomplete(t *testing.T) {
	for name, spoil := range map[string]func(*image.Manifest){
		"a tree that is nowhere": func(m *image.Manifest) { m.CPU.Tree = image.Sum([]byte("nowhere")).String() },
		"a file that is nowhere": func(m *image.Manifest) {
			m.Files = []image.SavedFile{{Path: "/a", Bytes: 3, Hash: image.Sum([]byte("abc")).String()}}
		},
		"no name":          func(m *image.Manifest) { m.CPU.Tree = "x" },
		"another number":   func(m *image.Manifest) { m.Generation++ },
		"a memory as tree": func(m *image.Manifest) { m.CPU.Tree = image.Sum(noise(1, 5000)).String() },
	} {
		path := t.TempDir()
		d := initDir(t, path)
		put(t, d, small(3))
		before := filesOf(t, path)
		transaction, err := d.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, err := fill(t.Context(), transaction, nil, small(1))
		if err != nil {
			t.Fatal(err)
		}
		spoil(m)
		sealed, err := image.SealManifest(m, testKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := transaction.Commit(t.Context(), sealed); err == nil {
			t.Errorf("%s: committed", name)
		}
		same(t, before, filesOf(t, path))
		if err := transaction.Commit(t.Context(), sealed); !errors.Is(err, ErrTransactionEnded) {
			t.Errorf("%s: a second commit: %v", name, err)
		}
	}
}
