package sockmux

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// errSocketTaken means that a phosd with another runtime directory listens at the socket.
var errSocketTaken = errors.New("something listens there already; stop it, or choose another socket")

// errNoSocket means that the path of the socket names something else.
var errNoSocket = errors.New("something else than a socket is there, and stays")

// Listen makes the socket, at which everybody may connect.
func Listen(socket string) (*net.UnixListener, error) {
	if taken, err := net.DialTimeout("unix", socket, time.Second); err == nil {
		return nil, errors.Join(fmt.Errorf("listen at %s: %w", socket, errSocketTaken), taken.Close())
	}
	// Only a socket that a killed phosd left behind may go: the path is an administrator's, who may
	// have mistyped it.
	if info, err := os.Lstat(socket); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("listen at %s: %w", socket, errNoSocket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); err != nil {
		return nil, fmt.Errorf("listen at %s: its directory must exist: %w", socket, err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	// The path goes last of all, when phosd closes: who waits for it to go may start the next phosd
	// then.
	listener.SetUnlinkOnClose(false)
	// Everybody may connect: who it is decides what he may do.
	if err := os.Chmod(socket, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), listener.Close())
	}
	return listener, nil
}
