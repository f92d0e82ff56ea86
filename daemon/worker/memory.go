package worker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// processMemory is the memory of a program; offsets are its addresses.
type processMemory struct {
	program proc.Identity
}

// maxVector is the most that the kernel moves in one call.
const maxVector = 1 << 30

// ErrRefused means that the kernel does not let this process touch the program's memory.
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
	return m.move(p, address, "write", unix.ProcessVMWritev)
}

type vectorCall func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

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
			// Where the driver would end the program with a signal, it gets an error.
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

// eitherMemory copies small pieces by itself, and asks the program's help for large ones, or once
// the kernel has refused.
type eitherMemory struct {
	direct   processMemory
	served   *wire.SlotMemory
	patience *patience
	frozen   *atomic.Bool
}

// servedBytes is the least size of a copy that the waiting thread helps with: it copies at the
// speed of memory, beside this process, while the kernel's way looks every page up, which takes
// twice as long as the copy itself.
const servedBytes = 512 << 10

// Where two threads do not get two cores, they wait for each other, and the kernel's way is the
// faster one: after a helped copy below slowRate the next one is done without help, and twice as
// many with each that is slow again.
const (
	slowRate   = 2 // bytes a nanosecond
	mostPauses = 16
)

// patience says for which copies the program's help is asked.
type patience struct {
	mu    sync.Mutex
	left  int // so many copies do without
	pause int // and so many did after the last slow one
}

// asks reports whether the next copy is to be helped.
func (p *patience) asks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		p.left--
		return false
	}
	return true
}

// note takes in how a helped copy went.
func (p *patience) note(fast bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fast {
		p.pause = 0
		return
	}
	p.pause = min(max(1, 2*p.pause), mostPauses)
	p.left = p.pause
}

func (m eitherMemory) ReadAt(p []byte, address int64) (int, error) {
	return m.move(p, address, m.direct.ReadAt, m.served.ReadAt)
}

func (m eitherMemory) WriteAt(p []byte, address int64) (int, error) {
	return m.move(p, address, m.direct.WriteAt, m.served.WriteAt)
}

type moving func(p []byte, address int64) (int, error)

func (m eitherMemory) move(p []byte, address int64, direct, served moving) (int, error) {
	if len(p) >= servedBytes && !m.frozen.Load() && m.patience.asks() {
		began := time.Now()
		count, err := moveServed(p, address, direct, served)
		m.patience.note(time.Since(began).Nanoseconds() <= int64(len(p))/slowRate)
		return count, err
	}
	count, err := direct(p, address)
	if errors.Is(err, ErrRefused) {
		return served(p, address)
	}
	return count, err
}

// moveServed moves the first and the last byte the kernel's way first: a range that may not be
// touched is an error then, where it would end the helping program by a signal, as the driver does.
// Holes between them the helping thread finds.
func moveServed(p []byte, address int64, direct, served moving) (int, error) {
	for _, at := range [...]int{0, len(p) - 1} {
		if _, err := direct(p[at:at+1], address+int64(at)); err != nil && !errors.Is(err, ErrRefused) {
			return 0, err
		}
	}
	return served(p, address)
}
