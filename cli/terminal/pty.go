package terminal

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openPipe opens a pipe whose ends are in blocking mode.
func openPipe() (read, write *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("create a pipe: %w", err)
	}
	return os.NewFile(uintptr(ends[0]), "pipe"), os.NewFile(uintptr(ends[1]), "pipe"), nil
}

func openSockets() (inner, outer *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create a socket pair: %w", err)
	}
	return os.NewFile(uintptr(ends[0]), "socket"), os.NewFile(uintptr(ends[1]), "socket"), nil
}

// SetRaw puts a terminal into raw mode and returns a function that resets it. A file that is not a
// terminal stays as it is.
func SetRaw(file *os.File) (reset func() error, err error) {
	fd := int(file.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() error { return nil }, nil //nolint:nilerr // not a terminal
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("set the terminal's mode: %w", err)
	}
	return func() error { return unix.IoctlSetTermios(fd, unix.TCSETSW, before) }, nil
}

// sendEOF sends the end-of-file character, if the program reads lines.
func sendEOF(master *os.File) error {
	mode, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS)
	if err != nil || mode.Lflag&unix.ICANON == 0 {
		return err
	}
	_, err = master.Write([]byte{mode.Cc[unix.VEOF]})
	return err
}
