package contents

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// chunk returns page-aligned memory with some content.
func chunk(t *testing.T) []byte {
	t.Helper()
	memory, err := unix.Mmap(
		-1,
		0,
		image.ChunkBytes,
		unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS,
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	_, _ = rand.NewChaCha8([32]byte{1}).Read(memory)
	return memory
}

func pack(t *testing.T) *os.File {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "pack"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	again, err := openDirect(file, unix.O_RDONLY)
	if err != nil {
		t.Skipf("file system without O_DIRECT: %v", err)
	}
	defer again.Close()
	return file
}

// TestDirect: a chunk is written and read without entering the page cache.
func TestDirect(t *testing.T) {
	const slot = 3 * image.ChunkBytes
	file, content, got := pack(t), chunk(t), chunk(t)
	clear(got)
	var writes directWrites
	if !writes.write(file, slot, content) {
		t.Fatal("not written")
	}
	if cached(file, slot) {
		t.Skip("this file system caches direct writes")
	}
	if !readDirect(file, got, slot) {
		t.Fatal("not read")
	}
	if !bytes.Equal(got, content) {
		t.Error("content differs")
	}
	if cached(file, slot) {
		t.Error("content is in the page cache")
	}
}

// TestNotDirect: cached or unaligned data is left to the normal way.
func TestNotDirect(t *testing.T) {
	file, content := pack(t), chunk(t)
	var writes directWrites
	if writes.write(file, 0, content[1:]) || writes.write(file, 1, content) {
		t.Error("written, though it is not aligned")
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if readDirect(file, content, 0) {
		t.Error("read, though it is in the page cache")
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if readDirect(file, content[1:], 0) || readDirect(file, content[:image.PageBytes], 0) ||
		readDirect(file, content, image.PageBytes) {
		t.Error("read, though it is not aligned, short, or not there")
	}
}
