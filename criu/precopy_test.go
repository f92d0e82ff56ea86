package criu

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
)

// hoard uses much memory, changes a little of it between two steps, and checks it.
const hoard = `
block = 1 << 20
memory = [bytearray([i]) * block for i in range(96)]
step('one')
for i in range(0, 96, 10): memory[i][7 * i] = 255 - i
more = [bytearray([i % 251]) * 1000 for i in range(1000)]
step('two')
good = all(memory[i][7 * i] == (255 - i if i % 10 == 0 else i) for i in range(96))
good = good and all(memory[i].count(i) >= block - 1 for i in range(96))
good = good and all(more[i].count(i % 251) == 1000 for i in range(1000))
say('done', good)
sys.exit(7)
`

// TestPrecopy: memory that was precopied is not dumped again unless it has changed.
func TestPrecopy(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), hoard))
	s.says("at one")
	tree, err := cpu.Inspect(within(t), s.root)
	if err != nil {
		t.Fatal(err)
	}
	dir := images(t, 0)
	if _, err := cpu.Precopy(within(t), tree, dir, nil); errors.Is(err, ckpt.ErrUntracked) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	s.allow("one")
	s.says("at two")
	saved := s.saveInto(cpu, dir, true)
	precopied, dumped := pageBytes(t, filepath.Join(dir.Name(), ckpt.ParentImages)), pageBytes(t, dir.Name())
	// A huge page is written as a whole.
	if precopied < 96<<20 || dumped > 48<<20 {
		t.Errorf("precopied %d bytes, dumped %d", precopied, dumped)
	}
	back := saved.restore(t, cpu, saved.order(t))
	s.allow("two")
	ends(t, back, 7)
	s.says("done True")
}

// TestPrecopyOfAnotherUser: a tree was admitted as a user's, and has become root's since, as by a
// setuid program. Nothing of its memory is written.
func TestPrecopyOfAnotherUser(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), hoard))
	s.says("at one")
	tree, err := cpu.Inspect(within(t), s.root)
	if err != nil {
		t.Fatal(err)
	}
	tree.Processes[0].UID, tree.Processes[0].GID = 61241, 61241
	dir := images(t, 0)
	if _, err := cpu.Precopy(within(t), tree, dir, nil); !errors.Is(err, ErrAnotherUser) {
		t.Errorf("got %v, want ErrAnotherUser", err)
	}
	if found, err := filepath.Glob(filepath.Join(dir.Name(), ckpt.ParentImages, "pages-*.img")); err != nil || len(found) > 0 {
		t.Errorf("written: %v, %v", found, err)
	}
}

// pageBytes returns the size of the pages in a directory of images.
func pageBytes(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "pages-*.img"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no pages in %s: %v", dir, err)
	}
	for _, path := range found {
		var info unix.Stat_t
		if err := unix.Stat(path, &info); err != nil {
			t.Fatal(&os.PathError{Op: "stat", Path: path, Err: err})
		}
		bytes += info.Size
	}
	return bytes
}
