package userfault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Errors of a page that cannot be given.
var (
	// ErrChanging is returned while the address space changes. Read the events and try again.
	ErrChanging = errors.New("the address space is changing")
	// ErrPresent is returned for a page that is already there.
	ErrPresent = errors.New("the page is already there")
	// ErrUnmapped is returned for memory that is no longer registered.
	ErrUnmapped = errors.New("the memory is not registered")
	// ErrGone is returned when the address space is no more: its process has ended, or called exec.
	ErrGone = errors.New("the address space is gone")
)

// File is a userfaultfd of another process.
type File struct{ *os.File }

// Copy gives a run of pages from start on. It returns how many bytes were given before an error.
func (f File) Copy(start uint64, content []byte) (done int, err error) {
	return f.give(start, len(content), func(start uint64, done int) (int64, error) {
		return copyPages(f.File, start, content[done:])
	})
}

// Zero gives a run of pages of zeros.
func (f File) Zero(start, end uint64) (done int, err error) {
	return f.give(start, int(end-start), func(start uint64, _ int) (int64, error) {
		return zeroPages(f.File, span{start, end - start})
	})
}

// give repeats a call for the rest of a run: the kernel may end early.
func (f File) give(start uint64, bytes int, call func(start uint64, done int) (int64, error)) (done int, err error) {
	for done < bytes {
		given, err := call(start+uint64(done), done)
		if given <= 0 {
			return done, explain(err)
		}
		done += int(given)
	}
	return done, nil
}

// explain returns the error of this package for one of the kernel.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EAGAIN):
		return ErrChanging
	case errors.Is(err, unix.EEXIST):
		return ErrPresent
	case errors.Is(err, unix.ENOENT):
		return ErrUnmapped
	case errors.Is(err, unix.ESRCH):
		return ErrGone
	case err == nil:
		return errors.New("the kernel gave no page")
	}
	return err
}

// Wake lets threads go on that wait for pages which are there.
func (f File) Wake(start, end uint64) error { return wake(f.File, span{start, end - start}) }

// Gone reports whether the address space is no more, as far as the kernel can tell now. It asks for
// what is refused for any other address space, because nothing there is protected.
func (f File) Gone() bool {
	page := uint64(os.Getpagesize())
	return errors.Is(unprotect(f.File, span{page << 10, page}), unix.ESRCH)
}

// Event is what the kernel says of the address space. Only one field is set.
type Event struct {
	// Fault is the address of the page for which a thread waits.
	Fault *uint64
	// Fork is the userfaultfd of a new child. Its memory is as the parent's was at the fork.
	Fork *File
	// Removed is memory whose pages were dropped: they are zeros when they are touched again.
	Removed *Range
	// Unmapped is memory that is no longer mapped.
	Unmapped *Range
	// Moved is memory that now has another address.
	Moved *Move
}

// Range is a part of an address space.
type Range struct{ Start, End uint64 }

// Move says that memory was moved.
type Move struct{ From, To, Bytes uint64 }

// Numbers of events, in linux/userfaultfd.h, and the length of a message.
const (
	eventFault    = 0x12
	eventFork     = 0x13
	eventMoved    = 0x14
	eventRemoved  = 0x15
	eventUnmapped = 0x16

	messageBytes = 32
)

// Events reads the events that have happened; none if there are none now.
func (f File) Events() (found []Event, err error) {
	messages := make([]byte, 64*messageBytes)
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	n := 0
	if controlled := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), messages) }); controlled != nil {
		return nil, controlled
	}
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read events of memory: %w", err)
	}
	for rest := messages[:n]; len(rest) >= messageBytes; rest = rest[messageBytes:] {
		event, err := decode(rest[:messageBytes])
		if err != nil {
			return found, err
		}
		found = append(found, event)
	}
	return found, nil
}

// decode decodes a struct uffd_msg.
func decode(message []byte) (Event, error) {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(message[8+8*i:]) }
	switch message[0] {
	case eventFault:
		address := word(1) &^ (uint64(os.Getpagesize()) - 1)
		return Event{Fault: &address}, nil
	case eventFork:
		fd := binary.NativeEndian.Uint32(message[8:])
		return Event{Fork: &File{os.NewFile(uintptr(fd), "userfaultfd")}}, nil
	case eventMoved:
		return Event{Moved: &Move{From: word(0), To: word(1), Bytes: word(2)}}, nil
	case eventRemoved:
		return Event{Removed: &Range{word(0), word(1)}}, nil
	case eventUnmapped:
		return Event{Unmapped: &Range{word(0), word(1)}}, nil
	}
	return Event{}, fmt.Errorf("unknown event %#x of memory", message[0])
}
