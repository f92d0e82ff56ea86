package contents

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Whole chunks bypass the page cache. Filling it would cost processor time and evict other data, at
// the expense of programs that run beside a checkpoint or a restore. A disk is also read several
// times as fast that way, because whole chunks are requested at once. If a file system does not
// support O_DIRECT, or data is not aligned, the page cache is used.

// directWrites remembers whether a pack supports direct writes.
type directWrites struct{ impossible atomic.Bool }

// write tries to write a chunk to a slot. If it returns false, the caller must write the chunk in
// the normal way, which reports errors such as a full disk.
func (d *directWrites) write(file *os.File, slot int64, chunk []byte) bool {
	if d.impossible.Load() || !pageAligned(chunk) || slot%image.PageBytes != 0 {
		return false
	}
	again, err := openDirect(file, unix.O_WRONLY)
	if err != nil {
		d.impossible.Store(true)
		return false
	}
	defer again.Close()
	_, err = again.WriteAt(chunk, slot)
	if errors.Is(err, unix.EINVAL) {
		d.impossible.Store(true) // it needs another alignment
	}
	return err == nil
}

// readDirect tries to fill dst with the bytes at offset, unless they are in the page cache. If it
// returns false, the caller must read in the normal way, which reports errors.
func readDirect(file *os.File, dst []byte, offset int64) bool {
	if len(dst) < image.LargeBytes || len(dst)%image.PageBytes != 0 || offset%image.PageBytes != 0 ||
		!pageAligned(dst) ||
		cached(file, offset) {
		return false
	}
	again, err := openDirect(file, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer again.Close()
	n, err := again.ReadAt(dst, offset)
	return n == len(dst) && err == nil
}

// cached reports whether the page cache holds a chunk, judging by its first page: chunks are cached
// as a whole. It returns true if it cannot find out.
func cached(file *os.File, offset int64) bool {
	page, err := unix.Mmap(int(file.Fd()), offset, image.PageBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Munmap(page) }()
	return resident(page)
}

// openDirect opens a file again for each chunk. That takes a hundredth of the time of moving one,
// and leaves nothing to close. It fails if the process holds the file but may not open it.
func openDirect(file *os.File, mode int) (*os.File, error) {
	fd, err := unix.Open(proc.OwnFile(int(file.Fd())), mode|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
