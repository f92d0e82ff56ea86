package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/peer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// verb is what a request asks for.
type verb string

const (
	// askStatus is answered at once, askStarted when all processes are started or the attempt ends,
	// askEnd when it has ended.
	askStatus  verb = "status"
	askStarted verb = "started"
	askEnd     verb = "end"
	doExtend   verb = "extend"
	doStop     verb = "stop"
	doKill     verb = "kill"
	doSignal   verb = "signal"
)

// request is what a connection to a supervisor begins with. There is one on each.
type request struct {
	Version int  `json:"version"`
	Do      verb `json:"do"`
	// Until is the new deadline.
	Until time.Duration `json:"until,omitempty"`
	// Grace is the time from SIGTERM to SIGKILL.
	Grace   time.Duration `json:"grace,omitempty"`
	Process int           `json:"process,omitempty"`
	Signal  unix.Signal   `json:"signal,omitempty"`
}

// reply is the answer.
type reply struct {
	fdpass.Outcome
	Status *Status `json:"status,omitempty"`
}

// errNoAnswer means that no supervisor has answered: it has ended, or has not begun.
var errNoAnswer = errors.New("no answer")

// exchange makes one request to the supervisor of a run directory.
func exchange(ctx context.Context, dir string, expected proc.Identity, r request) (*Status, error) {
	conn, err := dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := checkPeer(conn, expected); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(0, 1)) })
	defer stop()
	r.Version = version
	var answer reply
	err = json.NewEncoder(conn).Encode(r)
	if err == nil {
		err = json.NewDecoder(conn).Decode(&answer)
	}
	switch {
	case err == nil:
		return answer.Status, kinds.Err(answer.Outcome)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return nil, errNoAnswer
	}
	return nil, err
}

// dial connects to the socket of a run directory. Its path may be longer than the kernel takes.
func dial(ctx context.Context, dir string) (*net.UnixConn, error) {
	opened, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socketPath(opened))
	switch {
	case err == nil:
		return conn.(*net.UnixConn), nil
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil, errNoAnswer
	}
	return nil, err
}

// socketPath returns a short path of the socket in a directory that is open.
func socketPath(dir *os.File) string {
	return filepath.Join("/proc/self/fd", fmt.Sprint(dir.Fd()), socketName)
}

// checkPeer refuses an answer of another process than the supervisor.
func checkPeer(conn *net.UnixConn, expected proc.Identity) error {
	found, err := peer.Of(conn)
	switch {
	case errors.Is(err, proc.ErrGone):
		return errNoAnswer
	case err != nil && !proc.Unknown(err):
		return err
	case int(found.UID) != os.Geteuid(), err == nil && found.Process != expected:
		return fmt.Errorf("%w: pid %d of user %d, not pid %d", ErrImposter, found.Process.PID, found.UID, expected.PID)
	}
	return nil
}
