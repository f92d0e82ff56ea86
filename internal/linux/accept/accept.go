// Package accept accepts the connections of a unix socket, even while the process has no free file
// descriptor: it keeps some in reserve. Otherwise connections would wait in the socket's queue,
// without an answer, until a descriptor is free.
package accept

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// reserve is how many connections are served while no descriptor is free. One caller may need two:
// one for its requests, and one for the files that it passes.
const reserve = 4

// retryTime is the time between two attempts at something that needs a descriptor.
const retryTime = 20 * time.Millisecond

// Acceptor accepts connections.
type Acceptor struct {
	socket *net.UnixListener
	log    *slog.Logger

	mu       sync.Mutex // guards the fields below
	reserved []int      // the descriptors in reserve
	closed   bool
}

// New returns an Acceptor for a listening socket. It fails if it cannot fill the reserve: such a
// server could not answer any caller.
func New(socket *net.UnixListener, log *slog.Logger) (*Acceptor, error) {
	in := &Acceptor{socket: socket, log: log}
	if !in.fillReserve() { // now, because there may be none when Next is called
		in.close()
		return nil, Full()
	}
	return in, nil
}

// Next waits for a connection; an error means that the socket is closed. If full is set, conn holds
// a descriptor of the reserve: nothing can be opened for this connection, and it should be closed
// soon.
func (in *Acceptor) Next() (conn *net.UnixConn, full, err error) {
	for failed := false; ; {
		conn, err = in.socket.AcceptUnix()
		switch {
		case err == nil:
			return conn, in.refill(), nil
		case errors.Is(err, net.ErrClosed):
			in.close()
			return nil, nil, err
		case noDescriptors(err) && in.useReserve(): // the kernel reports this even if no connection is waiting
		case !failed:
			in.log.Error("cannot accept connections", "error", err)
			failed = true
		default:
			time.Sleep(retryTime) //nolint:forbidigo // no event reports a free descriptor
			in.fillReserve()
		}
	}
}

// refill fills the reserve. On failure it returns Full and tries again in the background.
func (in *Acceptor) refill() error {
	if in.fillReserve() {
		return nil
	}
	time.AfterFunc(retryTime, func() { _ = in.refill() })
	return Full()
}

// noDescriptors reports whether an error means that no file descriptor is free.
func noDescriptors(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// Full returns an error that says that no descriptor is left, and what can be done about it.
func Full() error {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // fails only for an unknown resource
	return fmt.Errorf(
		"%s (pid %d) may have no more than %d files open; give it a higher limit (ulimit -n, LimitNOFILE=)",
		filepath.Base(os.Args[0]),
		os.Getpid(),
		limit.Cur,
	)
}

// useReserve closes a descriptor of the reserve, if there is one, for the waiting connection.
func (in *Acceptor) useReserve() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	last := len(in.reserved) - 1
	if last < 0 {
		return false
	}
	_ = unix.Close(in.reserved[last])
	in.reserved = in.reserved[:last]
	return true
}

// fillReserve fills the reserve and reports whether that succeeded.
func (in *Acceptor) fillReserve() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.closed && len(in.reserved) < reserve {
		kept, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		in.reserved = append(in.reserved, kept)
	}
	return true
}

func (in *Acceptor) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	for _, each := range in.reserved {
		_ = unix.Close(each)
	}
	in.reserved = nil
}
