package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSocket is the longest path of a unix socket.
var maxSocket = len(unix.RawSockaddrUnix{}.Path) - 1

// prepareSocket checks that etcd may listen at a path: it would remove whatever is there.
func prepareSocket(path string) error {
	if len(path) > maxSocket {
		return fmt.Errorf("path of a socket: %d bytes of at most %d: %.120s", len(path), maxSocket, path)
	}
	directory, err := openPrivate(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("directory of a socket: %w", err)
	}
	defer directory.Close()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for a socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and no socket", path)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		return errors.Join(fmt.Errorf("socket %s: %w", path, ErrInUse), conn.Close())
	}
	return nil // an etcd that was killed has left it
}
