package tracker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
)

// Tracker has the userfaultfd of a program. A nil Tracker has none, and does nothing. Its lock is a
// leaf.
type Tracker struct {
	uffd *os.File

	mu sync.Mutex // guards what follows
	// on is set while phosd tracks.
	on bool
	// order is the number of the newest order to begin or end.
	order uint64
	// guarded is memory that was released since phosd began to track. libphos.so protects it by a
	// userfaultfd of its own, which must not be opened from here.
	guarded []span
}

// span is a part of the address space.
type span struct{ start, end uint64 }

// ErrNone is returned for a program whose writes cannot be tracked: its memory is saved while it
// stands still.
var ErrNone = errors.New("what the program writes is not tracked")

// Receive receives the userfaultfd that a program has offered in its Hello. The connection is good
// after an ErrNone.
func Receive(conn net.Conn) (*Tracker, error) {
	socket, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return nil, fmt.Errorf("%w: no unix socket", wire.ErrHandshake)
	}
	text, beside := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, besides, _, _, err := socket.ReadMsgUnix(text, beside)
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	files, err := fdpass.Files(beside[:besides])
	switch {
	case err != nil:
	case len(files) != 1:
		err = errors.New("it has no userfaultfd")
	default:
		err = writetrack.Enable(files[0])
	}
	if err != nil {
		fdpass.Close(files)
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	return New(files[0]), nil
}

// New returns a Tracker with a userfaultfd that is enabled.
func New(userfaultfd *os.File) *Tracker { return &Tracker{uffd: userfaultfd} }

// Close closes the userfaultfd of a Tracker that is not used.
func (t *Tracker) Close() error {
	if t == nil {
		return nil
	}
	return t.uffd.Close()
}

// Wrote notes what this process has written into the program's memory. The kernel notices that when
// the pages are looked up, which may be before phosd looks, and the write after that.
func (t *Tracker) Wrote(address, bytes uint64) {
	if t == nil || bytes == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on {
		return
	}
	for _, each := range without(pages(address, address+bytes), t.guarded) {
		_ = writetrack.MarkWritten(t.uffd, each.start, each.end) // an error means that it is not mapped
	}
}

// Release ends tracking of memory for which libphos.so needs a userfaultfd of its own.
func (t *Tracker) Release(pid int, start, end uint64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on {
		return
	}
	released := pages(start, end)
	t.guarded = append(t.guarded, released)
	_ = writetrack.Release(t.uffd, pid, released.start, released.end) // an error means that it is not mapped
}

// pages returns the whole pages that a range is in.
func pages(start, end uint64) span {
	page := uint64(os.Getpagesize())
	return span{start &^ (page - 1), (end + page - 1) &^ (page - 1)}
}

// without returns the parts of a range that are in none of others.
func without(whole span, others []span) []span {
	parts := []span{whole}
	for _, other := range others {
		var left []span
		for _, part := range parts {
			if before := (span{part.start, min(part.end, other.start)}); before.start < before.end {
				left = append(left, before)
			}
			if behind := (span{max(part.start, other.end), part.end}); behind.start < behind.end {
				left = append(left, behind)
			}
		}
		parts = left
	}
	return parts
}

// Switch says whether phosd tracks from now on, and returns the number of the userfaultfd in this
// process; 0: there is none. An order that was overtaken by a newer one is not followed.
func (t *Tracker) Switch(on bool, order uint64) (number int, err error) {
	if t == nil {
		return 0, nil
	}
	t.mu.Lock()
	if order >= t.order {
		t.on, t.order, t.guarded = on, order, nil
	}
	t.mu.Unlock()
	raw, err := t.uffd.SyscallConn()
	if err != nil {
		return 0, err
	}
	return number, raw.Control(func(fd uintptr) { number = int(fd) })
}
