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
func (w *writeback) wrote(file *os.File, at, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes == 0 {
		w.from, w.to = at, at
	}
	w.from, w.to, w.bytes = min(w.from, at), max(w.to, at+bytes), w.bytes+bytes
	if w.bytes < writebackBytes || w.busy {
		return
	}
	from, count := w.from, w.to-w.from
	w.bytes, w.busy = 0, true
	// The call blocks if the disk is busy. It uses a duplicate descriptor, because the file may be
	// closed in the meantime.
	raw, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		w.busy = false
		return
	}
	go func() {
		_ = unix.SyncFileRange(raw, from, count, unix.SYNC_FILE_RANGE_WRITE)
		_ = unix.Close(raw)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy = false
	}()
}
