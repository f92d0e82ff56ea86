package privatefile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrExposed means that other users may read or write the file, or that it is another user's.
	ErrExposed = errors.New("the file is not private")
	// ErrUnusual means that the path is not a plain file, or that the file is too large.
	ErrUnusual = errors.New("not a file of this kind")
)

// Read returns the content of a file of at most maxBytes. The error is ErrExposed or ErrUnusual, or
// that of the system.
func Read(path string, maxBytes int) ([]byte, error) {
	// A pipe would otherwise wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err // it names the path
	}
	defer file.Close()
	if err := check(file); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	text, err := io.ReadAll(io.LimitReader(file, int64(maxBytes)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("read %s: %w: it has more than %d bytes", path, ErrUnusual, maxBytes)
	}
	return text, nil
}

// check looks at the open file, not at the path, which may be another file by now.
func check(file *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: it is no regular file", ErrUnusual)
	}
	if mode := stat.Mode & 0o777; mode&0o077 != 0 {
		return fmt.Errorf("%w: it has mode %04o; run: chmod 600 %s", ErrExposed, mode, file.Name())
	}
	if self := uint32(os.Geteuid()); stat.Uid != self && stat.Uid != 0 {
		return fmt.Errorf("%w: it belongs to user %d, and this is user %d", ErrExposed, stat.Uid, self)
	}
	return nil
}
