package sockmux

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/peer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// errSocketTaken is returned when a process listens at the socket, as a phosd with another runtime
// directory.
var errSocketTaken = errors.New("another process listens there; stop it, or choose another socket")

// errNoSocket is returned when the path of the socket names another kind of file.
var errNoSocket = errors.New("the file there is not a socket; remove it, or choose another path")

// Place says where the socket is, and which users can connect.
type Place struct {
	Path string
	// GID is its group, Mode its mode.
	GID  int
	Mode os.FileMode
}

// Listen makes the socket.
func Listen(place Place) (*net.UnixListener, error) {
	socket := place.Path
	if taken(socket) {
		return nil, fmt.Errorf("listen at %s: %w", socket, errSocketTaken)
	}
	// Only a socket is removed, which a killed phosd left behind: the configured path may be a typo.
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
	// The path is removed last of all, when phosd closes: once it is gone, the next phosd may start.
	listener.SetUnlinkOnClose(false)
	// The mode says which users can connect. What a caller may do depends on the peer's user.
	if err := Open(place); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), listener.Close())
	}
	return listener, nil
}

// leftOpen is how long a socket may stay open after its process was killed: a worker that was being
// started has it until it executes its own program.
const leftOpen = 2 * time.Second

// taken reports whether a process listens at a socket.
func taken(socket string) bool {
	for end := time.Now().Add(leftOpen); ; {
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			return errors.Is(err, unix.EAGAIN) || os.IsTimeout(err) // it has too many callers already
		}
		_, err = peer.Of(conn.(*net.UnixConn))
		conn.Close()
		if !errors.Is(err, proc.ErrGone) || time.Now().After(end) {
			return true
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the kernel has no event for it
	}
}

// Open sets which users can connect to the socket that Listen has made.
func Open(place Place) error {
	return errors.Join(os.Chown(place.Path, 0, place.GID), os.Chmod(place.Path, place.Mode))
}
