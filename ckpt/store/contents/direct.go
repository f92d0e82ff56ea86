package contents

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Whole chunks go past the page cache. Whoever runs beside a checkpoint or a restore would pay for
// the pages: with the time of processors that fill them, and with what else they held. A disk is
// read several times as fast that way, too, since it is asked for a whole chunk at once. Where a
// file system has no such way, or something is not aligned, it is done the ordinary way.

// directWrites remembers whether a pack can be written so.
type directWrites struct{ impossible atomic.Bool }

// write tries to write a chunk to a slot. What it returns false for must be written another way,
// where a full disk, say, is named.
func (d *directWrites) write(file *os.File, slot int64, chunk []byte) bool {
	if d.impossible.Load() || !pageAligned(chunk) {
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
		d.impossible.Store(true) // it wants another alignment
	}
	return err == nil
}

// readDirect tries to fill dst with what is stored at an offset, unless it is in the page cache
// already. What it returns false for must be read another way, where an error is named.
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

// cached says whether the page cache has a place, by its first page: chunks come and go as a whole.
// Who may not know that takes it to be so.
func cached(file *os.File, offset int64) bool {
	page, err := unix.Mmap(int(file.Fd()), offset, image.PageBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Munmap(page) }()
	return resident(page)
}

// openDirect opens a file again for each chunk, which takes a hundredth of the time of moving one,
// and leaves nothing to close. Who may not open a file, though he holds it, has no direct way
// either.
func openDirect(file *os.File, mode int) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), mode|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
