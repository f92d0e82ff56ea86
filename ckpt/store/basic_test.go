package store

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// mounted mounts something for a test; it skips the test if that is not permitted.
func mounted(t *testing.T, source, kind string, flags uintptr, data string) string {
	t.Helper()
	path := t.TempDir()
	if err := unix.Mount(source, path, kind, flags, data); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

// TestFileSystems uses images on several file systems.
func TestFileSystems(t *testing.T) {
	for name, mount := range map[string]func(t *testing.T) string{
		"tmpfs": func(t *testing.T) string { return mounted(t, "phos-test", "tmpfs", 0, "size=64m") },
		"overlay": func(t *testing.T) string {
			below := mounted(t, "phos-test", "tmpfs", 0, "size=64m") // the upper directory of an overlay cannot be on an overlay
			for _, sub := range []string{"lower", "upper", "work"} {
				if err := os.Mkdir(filepath.Join(below, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			// The image is in the lower layer, as in a container whose image includes it.
			put(t, initDir(t, filepath.Join(below, "lower")), small(1))
			return mounted(t, "overlay", "overlay", 0,
				"lowerdir="+below+"/lower,upperdir="+below+"/upper,workdir="+below+"/work")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := mount(t)
			d := initDir(t, path)
			first, err := d.Newest()
			if errors.Is(err, ErrNoGeneration) {
				first = put(t, d, small(1))
			}
			check(t, d, first, small(1))
			put(t, d, small(2))
			transaction, err := d.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := initDir(t, path).Begin(t.Context()); !errors.Is(err, ErrLocked) {
				t.Errorf("a second writer: %v", err)
			}
			if err := transaction.Abort(); err != nil {
				t.Error(err)
			}
			if _, err := d.Prune(t.Context(), Keep{Newest: 1}); err != nil {
				t.Error(err)
			}
			check(t, d, 2, small(2))
			if found := problems(t, path); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}

// TestReadOnly: an image on a read-only file system can be read.
func TestReadOnly(t *testing.T) {
	original := t.TempDir()
	put(t, initDir(t, original), small(1))
	path := mounted(t, original, "", unix.MS_BIND, "")
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	d, err := Open(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	check(t, d, 1, small(1))
	if found := problems(t, path); len(found) > 0 {
		t.Error(found)
	}
	if _, err := d.PlanPrune(t.Context(), Keep{Newest: 1}); err != nil {
		t.Error(err)
	}
	_, began := d.Begin(t.Context())
	_, pruned := d.Prune(t.Context(), Keep{Newest: 1})
	_, cleaned := d.Clean()
	for what, err := range map[string]error{"begin": began, "prune": pruned, "clean": cleaned} {
		if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCopies copies an image with common tools.
func TestCopies(t *testing.T) {
	original := t.TempDir()
	d := initDir(t, original)
	what := saved{
		memory: [][]byte{noise(1, image.ChunkBytes), noise(2, 100), noise(3, image.ChunkBytes)},
		files:  map[string][]byte{"f": noise(4, 50)},
	}
	put(t, d, what)
	for name, command := range map[string]string{
		"cp -a": `cp -a "$0/." "$1"`, "cp -r": `cp -r "$0/." "$1"`, "without holes": `cp -r --sparse=never "$0/." "$1"`,
		"tar": `tar -C "$0" -cf - . | tar -C "$1" -xf -`, "sparse tar": `tar -C "$0" -cSf - . | tar -C "$1" -xf -`,
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if output, err := exec.Command("bash", "-ec", command, original, path).CombinedOutput(); err != nil {
				t.Skipf("%v: %s", err, output)
			}
			if found := problems(t, path); len(found) > 0 {
				t.Error(found)
			}
			copied := initDir(t, path)
			check(t, copied, 1, what)
			put(t, copied, small(2))
			if _, err := copied.Prune(t.Context(), Keep{Generations: []uint64{1}}); err != nil {
				t.Error(err)
			}
			check(t, copied, 1, what)
		})
	}
}

// TestNoLocks: on a file system without locks an image can be read; writing fails with a clear
// error.
func TestNoLocks(t *testing.T) {
	path := t.TempDir()
	put(t, initDir(t, path), small(1))
	flock = func(int, int) error { return unix.ENOLCK }
	defer func() { flock = unix.Flock }()
	d, err := Open(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	check(t, d, 1, small(1))
	before := filesOf(t, path)
	_, began := d.Begin(t.Context())
	_, pruned := d.Prune(t.Context(), Keep{Newest: 1})
	_, cleaned := d.Clean()
	for what, err := range map[string]error{"begin": began, "prune": pruned, "clean": cleaned} {
		if !errors.Is(err, ErrNoLocks) || !strings.Contains(err.Error(), "use another file system") ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	same(t, before, filesOf(t, path))
}

// TestPlainRename: without RENAME_NOREPLACE the target is checked first, and nothing is
// overwritten.
func TestPlainRename(t *testing.T) {
	original := renameNew
	renameNew = func(int, string, int, string) error { return unix.EINVAL }
	defer func() { renameNew = original }()
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	put(t, d, small(2))
	if _, err := d.Prune(t.Context(), Keep{Newest: 1}); err != nil {
		t.Error(err)
	}
	check(t, d, 2, small(2))
	transaction, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = transaction.Abort() }()
	overwrite(t, filepath.Join(path, tmpName, "new"), []byte("new"))
	if err := transaction.writer.tmp.rename("new", d.generations, "000002"); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a generation: %v", err)
	}
	check(t, d, 2, small(2))
}

// TestLeftovers: empty files left by a crash of the machine.
func TestLeftovers(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	empty := filepath.Join(packsName, packName(newID()))
	for _, name := range []string{
		empty, "generations/000002", "tmp/commit",
		filepath.Join(tmpName, newID().String()+packSuffix),
	} {
		overwrite(t, filepath.Join(path, name), nil)
	}
	check(t, d, 1, small(1))
	if _, err := d.Inspect(0); !errors.Is(err, image.ErrMalformed) || !strings.Contains(err.Error(), "000002") {
		t.Errorf("the newest: %v", err)
	}
	found := strings.Join(problems(t, path), "\n")
	if !strings.Contains(found, empty+": ") || !strings.Contains(found, "generations/000002: ") {
		t.Errorf("verify: %s", found)
	}
	if n := put(t, d, small(3)); n != 3 {
		t.Errorf("next generation %d", n)
	}
	done, err := d.Prune(t.Context(), Keep{AllBut: []uint64{2}})
	if err != nil || done.PacksRemoved != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	check(t, d, 1, small(1))
	check(t, d, 3, small(3))
	if found := problems(t, path); len(found) > 0 {
		t.Error(found)
	}
}

// TestPruneWithReaders: a reader that opens an image during a prune reads its whole generation,
// or gets an error that it was removed.
func TestPruneWithReaders(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	var over atomic.Bool
	failed := make(chan error, 1)
	go func() {
		defer over.Store(true)
		for n := uint64(2); n < 25; n++ {
			if _, err := tryPut(d, small(n)); err != nil {
				failed <- err
				return
			}
			if _, err := d.Prune(t.Context(), Keep{Newest: 1}); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	read, gone := 0, 0
	for !over.Load() {
		reader, err := Open(openDir(t, path))
		if err != nil {
			t.Fatal(err)
		}
		n, err := reader.Newest()
		if err != nil {
			t.Fatal(err)
		}
		m, err := reader.Inspect(n)
		if errors.Is(err, ErrNoGeneration) {
			gone++
			reader.Close()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		packs, done, err := reader.Reader()
		if err != nil {
			t.Fatal(err)
		}
		if readWhole(packs, m.Processes[0].GPU.Tree) && readWhole(packs, m.CPU.Tree) {
			read++
		} else if _, err := reader.Manifest(n); errors.Is(err, ErrNoGeneration) {
			gone++
		} else {
			t.Errorf("generation %d exists but cannot be read", n)
		}
		done()
		reader.Close()
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if read == 0 {
		t.Errorf("nothing was read; %d generations were removed", gone)
	}
	t.Logf("%d read, %d removed", read, gone)
}

// TestOwnersDoNotMix: files of another user are not added to a user's image.
func TestOwnersDoNotMix(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	if err := os.Chown(filepath.Join(path, markerName), 12_345, 12_345); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, path)
	if _, err := tryPut(d, small(2)); !errors.Is(err, ErrOwner) || !strings.Contains(err.Error(), "uid 12345") {
		t.Errorf("root writes into a user's image: %v", err)
	}
	same(t, before, filesOf(t, path))
}

// TestRootPrunesUserImage: packs that root rewrites keep their owner.
func TestRootPrunesUserImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, saved{memory: [][]byte{noise(1, 1<<20), noise(2, 1<<20), noise(3, 1<<20)}})
	put(t, d, saved{memory: [][]byte{noise(1, 1<<20)}})
	const user = 12_345
	packs, err := filepath.Glob(filepath.Join(path, packsName, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		if err := os.Chown(pack, user, user); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := d.Prune(t.Context(), Keep{Newest: 1}); err != nil || done.PacksRewritten == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	packs, err = filepath.Glob(filepath.Join(path, packsName, "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, pack := range packs {
		info, err := os.Stat(pack)
		if err != nil {
			t.Fatal(err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != user || stat.Gid != user {
			t.Errorf("%s belongs to uid %d", pack, stat.Uid)
		}
	}
	check(t, d, 2, saved{memory: [][]byte{noise(1, 1<<20)}})
}
