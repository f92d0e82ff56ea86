package contents

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// direct writes whole chunks past the page cache. The program beside which they are written would pay for the pages: with the
// time of processors that fill them, and with what else they held. Where a file system has no such way, nothing is direct.
type direct struct{ impossible atomic.Bool }

// write tries to write a chunk to a slot. What it returns false for must be written another way, where a full disk, say, is named.
//
// The file is opened again for each chunk, which takes a hundredth of the time of writing one, and leaves nothing to close.
func (d *direct) write(file *os.File, slot int64, chunk []byte) bool {
	if d.impossible.Load() || !pageAligned(chunk) {
		return false
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		d.impossible.Store(true) // who may not open a file, though he holds it, has no direct way either
		return false
	}
	again := os.NewFile(uintptr(fd), file.Name())
	defer again.Close()
	_, err = again.WriteAt(chunk, slot)
	if errors.Is(err, unix.EINVAL) {
		d.impossible.Store(true) // it wants another alignment
	}
	return err == nil
}
