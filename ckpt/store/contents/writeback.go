package contents

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// writebackBytes is how much is written between two requests for write-back.
const writebackBytes = 16 << 20

// writeback makes the kernel start write-back of what was written, so that the sync before the
// commit finds little left. It is only a hint; errors are ignored.
type writeback struct {
	mu sync.Mutex
	// from and to enclose what was written since the last request; bytes is its size.
	from, to, bytes int64
	busy            bool
}

// wrote counts written bytes and requests write-back from time to time.
func (e *writeback) wrote(file *os.File, at, bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes == 0 {
		e.from, e.to = at, at
	}
	e.from, e.to, e.bytes = min(e.from, at), max(e.to, at+bytes), e.bytes+bytes
	if e.bytes < writebackBytes || e.busy {
		return
	}
	from, count := e.from, e.to-e.from
	e.bytes, e.busy = 0, true
	// The call blocks if the disk is busy. It uses a duplicate descriptor, because the file may be
	// closed in the meantime.
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
