package tracker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
)

// Tracker has the userfaultfd of a program. A nil Tracker has none, and does nothing.
type Tracker struct {
	uffd *os.File
	// on is set while phosd tracks.
	on atomic.Bool
}

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
	return &Tracker{uffd: files[0]}, nil
}

// Wrote notes what this process has written into the program's memory. The kernel notices that when
// the pages are looked up, which may be before phosd looks, and the write after that.
func (t *Tracker) Wrote(address, bytes uint64) {
	if t == nil || !t.on.Load() || bytes == 0 {
		return
	}
	_ = writetrack.MarkWritten(t.uffd, address, address+bytes) // the program has ended
}

// Release ends tracking of memory for which libphos.so needs a userfaultfd of its own.
func (t *Tracker) Release(pid int, start, end uint64) {
	if t == nil || !t.on.Load() {
		return
	}
	page := uint64(os.Getpagesize())
	_ = writetrack.Release(t.uffd, pid, start&^(page-1), (end+page-1)&^(page-1)) // the program has ended
}

// Switch says whether phosd tracks from now on, and returns the number of the userfaultfd in this
// process; 0: there is none.
func (t *Tracker) Switch(on bool) (number int, err error) {
	if t == nil {
		return 0, nil
	}
	t.on.Store(on)
	raw, err := t.uffd.SyscallConn()
	if err != nil {
		return 0, err
	}
	return number, raw.Control(func(fd uintptr) { number = int(fd) })
}
