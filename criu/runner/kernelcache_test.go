package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// inDirectory returns a KernelCache whose link is in a directory on a disk.
func inDirectory(t *testing.T) *KernelCache {
	t.Helper()
	if os.Getuid() != 0 {
		lack(t, "root", "CRIU is run by root")
	}
	disk := t.TempDir()
	if inMemory(disk) {
		t.Skip("needs temporary files on a disk")
	}
	k := &KernelCache{Program: program(t), Dir: filepath.Join(disk, "kept"), Link: filepath.Join(disk, knowledgeName)}
	t.Cleanup(func() { _ = k.removeDir() })
	return k
}

// program finds CRIU, or skips the test.
func program(t *testing.T) string {
	t.Helper()
	candidates := []string{os.Getenv("CRIU")}
	if home, err := os.UserHomeDir(); err == nil {
		built, _ := filepath.Glob(filepath.Join(home, ".cache/phos/criu-*/sbin/criu"))
		candidates = append(candidates, built...)
	}
	for _, candidate := range candidates {
		if _, err := os.Stat(candidate); err == nil {
			return candidate
		}
	}
	lack(t, "criu", "no CRIU is installed")
	return ""
}

func lack(t *testing.T, what, why string) {
	t.Helper()
	if strings.Contains(os.Getenv("REQUIRE"), what) {
		t.Fatal(why)
	}
	t.Skip(why)
}

func TestProvide(t *testing.T) {
	k := inDirectory(t)
	if err := k.Provide(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !inMemory(k.Dir) {
		t.Error("the cache is not on a tmpfs")
	}
	first := k.read(t)
	if err := k.Provide(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := k.read(t); !os.SameFile(first, again) {
		t.Error("CRIU probed the kernel twice")
	}
	if err := k.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{k.Link, k.Dir} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists: %v", path, err)
		}
	}
	if err := k.Provide(t.Context()); err != nil || k.exists() {
		t.Errorf("after Remove: %v", err)
	}
}

// read follows the link.
func (c *KernelCache) read(t *testing.T) os.FileInfo {
	t.Helper()
	info, err := os.Stat(c.Link)
	if err != nil || info.Size() == 0 {
		t.Fatalf("%v: %v", info, err)
	}
	return info
}

// A dangling link, as after a boot, is replaced; another file is left alone.
func TestProvideReplacesDanglingLink(t *testing.T) {
	k := inDirectory(t)
	if err := os.Symlink(k.Dir+"-gone", k.Link); err != nil {
		t.Fatal(err)
	}
	if err := k.Provide(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.read(t)
	other := &KernelCache{Program: k.Program, Dir: k.Dir + "-other", Link: k.Link}
	if err := errors.Join(other.Provide(t.Context()), other.Remove()); err != nil {
		t.Fatal(err)
	}
	k.read(t)
}

// CRIU uses a matching cache. It removes one of another version and writes its own.
func TestProvidedCacheIsUsed(t *testing.T) {
	k := inDirectory(t)
	found, err := k.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		given []byte
		taken bool
	}{{"its own", found, true}, {"another's", make([]byte, len(found)), false}} {
		place, err := newScratch()
		if err != nil {
			t.Fatal(err)
		}
		defer place.close()
		before := put(t, place, test.given)
		_, err = Run(context.Background(), Request{
			Program: k.Program, Type: rpc.CriuReqType_FEATURE_CHECK,
			Features:   &rpc.CriuFeatures{MemTrack: proto.Bool(true)},
			Namespaces: []*os.File{place.namespace}, Root: place.root,
		})
		if err != nil {
			t.Fatal(err)
		}
		if taken := inode(t, place) == before; taken != test.taken {
			t.Errorf("%s: taken %v", test.name, taken)
		}
	}
}

// put writes a cache where CRIU looks for it and returns the file's inode number.
func put(t *testing.T, place *scratch, content []byte) (number uint64) {
	t.Helper()
	fd, err := unix.Openat(
		int(place.directory.Fd()),
		knowledgeName,
		unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC,
		0o600,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, content); err != nil {
		t.Fatal(err)
	}
	return inode(t, place)
}

func inode(t *testing.T, place *scratch) uint64 {
	t.Helper()
	var info unix.Stat_t
	if err := unix.Fstatat(int(place.directory.Fd()), knowledgeName, &info, 0); err != nil {
		t.Fatal(err)
	}
	return info.Ino
}

func TestProvideWithoutDirectory(t *testing.T) {
	k := inDirectory(t)
	k.Dir = filepath.Join(k.Dir, "not", "there")
	if err := k.Provide(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := os.Lstat(k.Link); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("link still exists: %v", err)
	}
}
