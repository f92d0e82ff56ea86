// Package accept accepts the connections of a unix socket, those too that come while every
// descriptor is in use: some are kept back for them. Without these they would wait in the socket's
// queue, and whoever made them would learn nothing, for as long as it takes until some descriptor
// is free.
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
// one for its requests, and one for the files that it hands over.
const reserve = 4

// retryTime is between two attempts at something that needs a descriptor.
const retryTime = 20 * time.Millisecond

// Intake accepts connections.
type Intake struct {
	socket *net.UnixListener
	log    *slog.Logger

	mu   sync.Mutex // guards all below
	kept []int      // the descriptors that are kept back
	over bool
}

// New takes the connections of a socket. It fails where nothing can be kept back: such a server
// would answer nobody.
func New(socket *net.UnixListener, log *slog.Logger) (*Intake, error) {
	in := &Intake{socket: socket, log: log}
	if !in.keep() { // now: there may be none when Next is called
		in.end()
		return nil, Full()
	}
	return in, nil
}

// Next waits for a connection; its error means that the socket is closed. full is nil unless the
// connection has got a descriptor of the reserve: it says so, and nothing can be opened for this
// connection, which should be closed before long.
func (in *Intake) Next() (conn *net.UnixConn, full, err error) {
	for failed := false; ; {
		conn, err = in.socket.AcceptUnix()
		switch {
		case err == nil:
			return conn, in.refill(), nil
		case errors.Is(err, net.ErrClosed):
			in.end()
			return nil, nil, err
		case noneLeft(err) && in.giveUp(): // the kernel says so also while nobody waits
		case !failed:
			in.log.Error("accept", "error", err)
			failed = true
		default:
			time.Sleep(retryTime) //nolint:forbidigo // nothing tells when descriptors are free again
			in.keep()
		}
	}
}

// refill says what is wrong when the reserve is not as it should be, and sees to it that it will
// be, also while nobody comes.
func (in *Intake) refill() error {
	if in.keep() {
		return nil
	}
	time.AfterFunc(retryTime, func() { _ = in.refill() })
	return Full()
}

func noneLeft(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// Full says that no descriptor is left, and what can be done about it.
func Full() error {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it fails for an unknown resource alone
	return fmt.Errorf("%s (pid %d) may have no more than %d files open; give it a higher limit (ulimit -n, LimitNOFILE=)",
		filepath.Base(os.Args[0]), os.Getpid(), limit.Cur)
}

// giveUp frees a descriptor of the reserve, if there is one, for the connection that waits.
func (in *Intake) giveUp() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	last := len(in.kept) - 1
	if last < 0 {
		return false
	}
	_ = unix.Close(in.kept[last])
	in.kept = in.kept[:last]
	return true
}

// keep fills the reserve, and reports whether there was enough for that.
func (in *Intake) keep() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.over && len(in.kept) < reserve {
		kept, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		in.kept = append(in.kept, kept)
	}
	return true
}

func (in *Intake) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.over = true
	for _, each := range in.kept {
		_ = unix.Close(each)
	}
	in.kept = nil
}
