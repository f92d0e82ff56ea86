package statedir_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/phosd/statedir"
)

func open(t *testing.T, options statedir.Options) *statedir.Dir {
	t.Helper()
	dir, err := statedir.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestKeyStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	first := open(t, statedir.Options{Path: path}).Key()
	if first == (statedir.Key{}) {
		t.Fatal("the key is zero")
	}
	if again := open(t, statedir.Options{Path: path}).Key(); again != first {
		t.Error("another key after a restart")
	}
	info, err := os.Stat(filepath.Join(path, "key", "seal"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	other := open(t, statedir.Options{Path: filepath.Join(t.TempDir(), "other")})
	if other.Key() == first {
		t.Error("two machines have the same key")
	}
}

func TestImportedKeys(t *testing.T) {
	path := t.TempDir()
	dir := open(t, statedir.Options{Path: path})
	file := filepath.Join(path, "keys", "node2.key")
	if err := os.WriteFile(file, []byte(strings.Repeat("0f", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := dir.Imported()
	if err != nil || len(keys) != 1 || !bytes.Equal(keys[0][:], bytes.Repeat([]byte{0x0f}, 32)) {
		t.Errorf("keys %x, %v", keys, err)
	}
	for _, bad := range []string{"", "0f", strings.Repeat("xy", 32), strings.Repeat("0f", 33)} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Imported(); !errors.Is(err, statedir.ErrKey) {
			t.Errorf("%q: %v, want ErrKey", bad, err)
		}
	}
}

func TestImport(t *testing.T) {
	dir := open(t, statedir.Options{Path: t.TempDir()})
	key := bytes.Repeat([]byte{7}, 32)
	for _, test := range []struct {
		name string
		key  []byte
		want error
	}{
		{"node-1.example_x", key, nil},
		{"node-1.example_x", bytes.Repeat([]byte{8}, 32), nil},
		{"b", key, nil},
		{"", key, statedir.ErrKeyName},
		{".hidden", key, statedir.ErrKeyName},
		{"../key/seal", key, statedir.ErrKeyName},
		{"a b", key, statedir.ErrKeyName},
		{strings.Repeat("x", 101), key, statedir.ErrKeyName},
		{"short", key[1:], statedir.ErrKey},
	} {
		if err := dir.Import(test.name, test.key); !errors.Is(err, test.want) {
			t.Errorf("%q: %v, want %v", test.name, err, test.want)
		}
	}
	if err := dir.RemoveKey("b"); err != nil {
		t.Error(err)
	}
	if err := dir.RemoveKey("b"); !errors.Is(err, statedir.ErrNoKey) {
		t.Errorf("second RemoveKey: got %v, want ErrNoKey", err)
	}
	names, err := dir.Names()
	keys, failed := dir.Imported()
	if err != nil || failed != nil || len(names) != 1 || names[0] != "node-1.example_x" || len(keys) != 1 ||
		keys[0][0] != 8 {
		t.Errorf("%q %x, %v %v", names, keys, err, failed)
	}
}

func TestWorkOfTheDeadIsRemoved(t *testing.T) {
	path := t.TempDir()
	var works []*statedir.Work
	var dirs []*statedir.Dir
	for range 2 {
		dir := open(t, statedir.Options{Path: path})
		work, err := dir.NewWork(10, 0, uint32(os.Getuid()), uint32(os.Getgid()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work.Name(), "pages-1.img"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		dirs, works = append(dirs, dir), append(works, work)
	}
	// As it is when a process has been killed: its lock goes with its descriptors.
	dirs[0].LetGo()
	open(t, statedir.Options{Path: path})
	if _, err := os.Stat(works[0].Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the work of one that has ended is there: %v", err)
	}
	if _, err := os.Stat(works[1].Name()); err != nil {
		t.Errorf("the work of one that runs is gone: %v", err)
	}
	if err := dirs[1].Close(); err != nil {
		t.Error(err)
	}
}

func TestWorkInMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a tmpfs")
	}
	path := t.TempDir()
	options := statedir.Options{Path: path, MemoryPath: filepath.Join(path, "memory"), MemoryBytes: 8 << 20}
	dir := open(t, options)
	defer func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		bytes, allowed uint64
		inMemory       bool
	}{{1 << 20, 4 << 20, true}, {5 << 20, 4 << 20, false}, {16 << 20, 64 << 20, false}} {
		work, err := dir.NewWork(c.bytes, c.allowed, 4321, 4321)
		if err != nil {
			t.Fatal(err)
		}
		var at unix.Statfs_t
		var owner unix.Stat_t
		if err := errors.Join(unix.Fstatfs(int(work.Fd()), &at), unix.Fstat(int(work.Fd()), &owner)); err != nil {
			t.Fatal(err)
		}
		if work.InMemory != c.inMemory || c.inMemory && at.Type != unix.TMPFS_MAGIC {
			t.Errorf("%d bytes of %d: in memory %v, file system %x", c.bytes, c.allowed, work.InMemory, at.Type)
		}
		if owner.Uid != 4321 || owner.Mode&0o7777 != 0o700 {
			t.Errorf("owner %d, mode %o", owner.Uid, owner.Mode)
		}
		if err := work.Remove(); err != nil {
			t.Error(err)
		}
	}
}

func TestLibrary(t *testing.T) {
	dir := open(t, statedir.Options{Path: t.TempDir()})
	for _, content := range []string{"first", "first"} {
		file, err := dir.Library("ab12", strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(file)
		if err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
		file.Close()
	}
	for _, name := range []string{"", "../x", "a/b", "."} {
		if _, err := dir.Library(name, strings.NewReader("")); err == nil {
			t.Errorf("%q was taken as a name", name)
		}
	}
}

// TestWorkIsBounded checks that what is written to one directory in memory cannot take the room
// that was promised to another.
func TestWorkIsBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a tmpfs")
	}
	path := t.TempDir()
	dir := open(t, statedir.Options{Path: path, MemoryPath: filepath.Join(path, "memory"), MemoryBytes: 16 << 20})
	defer dir.Close()
	var works []*statedir.Work
	for range 2 {
		work, err := dir.NewWork(6<<20, 16<<20, 4321, 4321)
		if err != nil || !work.InMemory {
			t.Fatalf("got %+v, %v, want a directory in memory", work, err)
		}
		defer work.Remove()
		works = append(works, work)
	}
	block := make([]byte, 12<<20)
	if err := os.WriteFile(filepath.Join(works[0].Name(), "grows"), block, 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("beyond its size: got %v, want ENOSPC", err)
	}
	if err := os.WriteFile(filepath.Join(works[1].Name(), "fits"), block[:6<<20], 0o600); err != nil {
		t.Errorf("within its size: got %v", err)
	}
	if work, err := dir.NewWork(6<<20, 16<<20, 4321, 4321); err != nil || work.InMemory {
		t.Errorf("a third: got %+v, %v, want one on the disk", work, err)
	}
}

// TestUnusedLibrary checks that copies stay while a process has them mapped or open, and no longer.
func TestUnusedLibrary(t *testing.T) {
	path := t.TempDir()
	dir := open(t, statedir.Options{Path: path})
	held, err := dir.Library("aa", strings.NewReader("held"))
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := dir.Library("bb", strings.NewReader("mapped"))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(mapped.Fd()), 0, 6, unix.PROT_READ, unix.MAP_PRIVATE)
	if err := errors.Join(err, mapped.Close()); err != nil {
		t.Fatal(err)
	}
	has := func() (names []string) {
		entries, err := os.ReadDir(filepath.Join(path, "lib"))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	for i, want := range []string{"aa bb cc", "bb dd", "ee"} {
		made, err := dir.Library([]string{"cc", "dd", "ee"}[i], strings.NewReader("new"))
		if err := errors.Join(err, made.Close()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(has(), " "); got != want {
			t.Errorf("round %d: got %s, want %s", i, got, want)
		}
		if i == 0 {
			err = held.Close()
		} else if i == 1 {
			err = unix.Munmap(memory)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
