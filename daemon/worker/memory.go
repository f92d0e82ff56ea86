package worker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/worker/tracker"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// processMemory is the memory of a program; offsets are its addresses.
type processMemory struct {
	program proc.Identity
	tracker *tracker.Tracker
}

// maxVector is the most that the kernel moves in one call.
const maxVector = 1 << 30

// ErrRefused is returned when the kernel does not let this process access the program's memory.
var ErrRefused = fmt.Errorf(
	"the program's memory may not be touched from outside, and no thread of it waits that could copy: %w",
	abi.NotPermitted,
)

// ReadAt copies from the program.
func (m processMemory) ReadAt(p []byte, address int64) (int, error) {
	return m.move(p, address, "read", unix.ProcessVMReadv)
}

// WriteAt copies into the program.
func (m processMemory) WriteAt(p []byte, address int64) (int, error) {
	defer m.tracker.Wrote(uint64(address), uint64(len(p)))
	return m.move(p, address, "write", unix.ProcessVMWritev)
}

type vectorCall func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

// move copies between p and the program by call, and returns how many bytes were copied.
func (m processMemory) move(p []byte, address int64, what string, call vectorCall) (int, error) {
	moved := 0
	for moved < len(p) {
		part := p[moved:min(len(p), moved+maxVector)]
		local := []unix.Iovec{{Base: &part[0]}}
		local[0].SetLen(len(part))
		remote := []unix.RemoteIovec{{Base: uintptr(address) + uintptr(moved), Len: len(part)}}
		got, err := call(m.program.PID, local, remote, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EPERM):
			return moved, fmt.Errorf("%s %d bytes at %#x: %w", what, len(p), address, ErrRefused)
		case err != nil || got <= 0:
			// The driver would kill the program with a signal here; the program gets an error instead.
			return moved, fmt.Errorf(
				"%s %d bytes of the program at %#x: %w (%w)",
				what,
				len(p),
				address,
				abi.InvalidValue,
				err,
			)
		}
		moved += got
	}
	return moved, nil
}

// combinedMemory copies small ranges directly. Large ranges, and all ranges that the kernel
// refuses, are copied by the program's waiting thread.
type combinedMemory struct {
	direct   processMemory
	served   *wire.SlotMemory
	throttle *helpThrottle
	frozen   *atomic.Bool
}

// minServedBytes is the minimum size of a copy that the waiting thread helps with. The thread
// copies at memory speed in parallel. process_vm_readv looks up every page, which takes twice as
// long as the copy itself.
const minServedBytes = 512 << 10

// If the two threads do not get two cores they wait for each other, and a direct copy is faster.
// After a helped copy below slowRate the next copy is direct. The number of direct copies doubles
// with each further slow one, up to maxPauses.
const (
	slowRate  = 2 // bytes a nanosecond
	maxPauses = 16
)

// helpThrottle decides which copies are done with the program's help.
type helpThrottle struct {
	mu    sync.Mutex
	left  int // copies that remain to be done without help
	pause int // copies without help after the last slow one
}

// allow reports whether the next copy is done with help.
func (p *helpThrottle) allow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		p.left--
		return false
	}
	return true
}

// record notes whether a helped copy was fast.
func (p *helpThrottle) record(fast bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fast {
		p.pause = 0
		return
	}
	p.pause = min(max(1, 2*p.pause), maxPauses)
	p.left = p.pause
}

func (m combinedMemory) ReadAt(p []byte, address int64) (int, error) {
	return m.move(p, address, m.direct.ReadAt, m.served.ReadAt)
}

func (m combinedMemory) WriteAt(p []byte, address int64) (int, error) {
	return m.move(p, address, m.direct.WriteAt, m.served.WriteAt)
}

type copyFunc func(p []byte, address int64) (int, error)

// move copies by one of the two ways.
func (m combinedMemory) move(p []byte, address int64, direct, served copyFunc) (int, error) {
	if len(p) >= minServedBytes && !m.frozen.Load() && m.throttle.allow() {
		began := time.Now()
		count, err := moveServed(p, address, direct, served)
		m.throttle.record(time.Since(began).Nanoseconds() <= int64(len(p))/slowRate)
		return count, err
	}
	count, err := direct(p, address)
	if errors.Is(err, ErrRefused) {
		return served(p, address)
	}
	return count, err
}

// moveServed copies the first and the last byte directly before it asks for help. So a bad range is
// an error, not a signal that kills the helping program. Holes inside the range still raise the
// signal, as they do with the driver.
func moveServed(p []byte, address int64, direct, served copyFunc) (int, error) {
	for _, at := range [...]int{0, len(p) - 1} {
		if _, err := direct(p[at:at+1], address+int64(at)); err != nil && !errors.Is(err, ErrRefused) {
			return 0, err
		}
	}
	return served(p, address)
}
