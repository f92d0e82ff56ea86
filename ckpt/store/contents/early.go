package contents

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// earlyBytes is how much is written between two times that the disk is told of it.
const earlyBytes = 16 << 20

// early has the disk begin with what was written, so that it works beside the processor and the
// sync before the commit finds little to wait for. It is only a hint: what it says comes to nothing
// when it fails.
type early struct {
	mu sync.Mutex
	// from and to are around what the disk was not told of; bytes of it were written.
	from, to, bytes int64
	busy            bool
}

// wrote counts what was written, and tells the disk of it now and then.
func (e *early) wrote(file *os.File, at, bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes == 0 {
		e.from, e.to = at, at
	}
	e.from, e.to, e.bytes = min(e.from, at), max(e.to, at+bytes), e.bytes+bytes
	if e.bytes < earlyBytes || e.busy {
		return
	}
	from, count := e.from, e.to-e.from
	e.bytes, e.busy = 0, true
	// It waits where the disk has much to do already. The descriptor is duplicated: the file may be
	// closed meanwhile.
	raw, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		e.busy = false
		return
	}
	go func() {
		_ = unix.SyncFileRange(raw, from, count, unix.SYNC_FILE_RANGE_WRITE)
		_ = unix.Close(raw)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.busy = false
	}()
}
