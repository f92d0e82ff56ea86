package contents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Limit limits several writers together to a rate in bytes per second, also those of other
// processes that have opened its File. A nil Limit does not limit.
type Limit struct {
	bytesPerSecond float64
	// next is when the bytes written so far are paid for, in nanoseconds of the monotonic clock. If
	// it is shared, the other processes may set it to anything: they can only delay each other.
	next *atomic.Int64
	// file is that of the shared memory of next; nil if it is of this process alone or of another
	// Limit.
	file *os.File
}

// NewLimit returns nil, which means no limit, for 0.
func NewLimit(bytesPerSecond uint64) *Limit {
	if bytesPerSecond == 0 {
		return nil
	}
	return &Limit{bytesPerSecond: float64(bytesPerSecond), next: new(atomic.Int64)}
}

// NewSharedLimit is NewLimit for a limit whose File other processes open.
func NewSharedLimit(bytesPerSecond uint64) (*Limit, error) {
	if bytesPerSecond == 0 {
		return nil, nil
	}
	fd, err := unix.MemfdCreate("phos-limit", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create a limit: %w", err)
	}
	file := os.NewFile(uintptr(fd), "limit")
	if err := file.Truncate(limitBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("create a limit: %w", err), file.Close())
	}
	// A file that becomes shorter would end the processes that have mapped it.
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, limitSeals); err != nil {
		return nil, errors.Join(fmt.Errorf("create a limit: %w", err), file.Close())
	}
	l, err := OpenLimit(file, bytesPerSecond)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l.file = file
	return l, nil
}

const (
	// limitBytes is the size of a shared limit.
	limitBytes = 8
	limitSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
)

// OpenLimit opens a limit of another process by its File, which the caller may close then.
func OpenLimit(file *os.File, bytesPerSecond uint64) (*Limit, error) {
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err == nil && (seals&unix.F_SEAL_SHRINK == 0 || bytesPerSecond == 0) {
		err = unix.EINVAL
	}
	if err != nil {
		return nil, fmt.Errorf("open a limit: %w", err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, limitBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("open a limit: %w", err)
	}
	l := &Limit{bytesPerSecond: float64(bytesPerSecond), next: wordOf(mapped)}
	// Not earlier: a writer that hangs on a disk may outlive its checkpoint.
	runtime.AddCleanup(l, func(mapped []byte) { _ = unix.Munmap(mapped) }, mapped)
	return l, nil
}

// File is the file by which other processes open the limit; nil if it is not shared.
func (l *Limit) File() *os.File {
	if l == nil {
		return nil
	}
	return l.file
}

// Close closes File. The limit stays usable.
func (l *Limit) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Wait blocks until so many bytes may be written.
func (l *Limit) Wait(ctx context.Context, bytes int) error {
	if l == nil {
		return ctx.Err()
	}
	wait := l.reserve(bytes, 2*maxAhead)
	if wait <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Charge counts bytes that must not wait. Later calls of Wait wait for them, too, but for no more
// than maxDebt: a checkpoint that makes no progress for longer is given up.
func (l *Limit) Charge(bytes int) {
	if l != nil {
		l.reserve(bytes, maxDebt)
	}
}

// maxDebt is how far charged bytes put off later writes.
const maxDebt = int64(time.Minute)

// maxAhead is an upper bound for what is not paid for yet, so that no sum overflows.
const maxAhead = int64(365 * 24 * time.Hour)

// maxTries bounds the attempts to change the shared word: another process may change it all the
// time.
const maxTries = 100

// reserve returns how long to wait until bytes may be written. They put off later ones until at
// most so far from now.
func (l *Limit) reserve(bytes int, most int64) time.Duration {
	defer runtime.KeepAlive(l)
	cost := int64(min(float64(bytes)/l.bytesPerSecond*float64(time.Second), float64(maxAhead)))
	now, at := monotonic(), int64(0)
	for range maxTries {
		before := l.next.Load()
		at = min(max(before, now), now+maxAhead)
		if l.next.CompareAndSwap(before, max(at, min(at+cost, now+most))) {
			break
		}
	}
	return time.Duration(at - now)
}

// monotonic returns the time of the clock that all processes of the machine share.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0 // the clock always exists
	}
	return now.Nano()
}
