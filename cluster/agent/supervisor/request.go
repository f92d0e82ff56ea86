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
	// doExec is answered when the command has begun, and again with an ExecEnd.
	doExec verb = "exec"
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
	Exec    *ExecOrder    `json:"exec,omitempty"`
}

// reply is the answer.
type reply struct {
	fdpass.Outcome
	Status *Status `json:"status,omitempty"`
}

// maxRequest is the most bytes of a request.
const maxRequest = 256 << 10

// carrier reads the messages of a connection, and keeps the files that come with them.
type carrier struct {
	*net.UnixConn
	limited *io.LimitedReader
	decoder *json.Decoder
	files   []*os.File
}

func newCarrier(conn *net.UnixConn) *carrier {
	c := &carrier{UnixConn: conn}
	c.limited = &io.LimitedReader{R: c}
	c.decoder = json.NewDecoder(c.limited)
	return c
}

// Read implements io.Reader.
func (c *carrier) Read(to []byte) (int, error) {
	const most = 3
	beside := make([]byte, unix.CmsgSpace(most*4))
	n, besides, _, _, err := c.ReadMsgUnix(to, beside)
	if err != nil {
		return 0, err
	}
	files, err := fdpass.Files(beside[:besides])
	c.files = append(c.files, files...)
	return n, err
}

// decode reads a message.
func (c *carrier) decode(message any) error {
	c.limited.N = maxRequest
	return c.decoder.Decode(message)
}

// take returns the files that have come.
func (c *carrier) take() []*os.File {
	files := c.files
	c.files = nil
	return files
}

// close closes the files that were not taken.
func (c *carrier) close() { fdpass.Close(c.take()) }

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

// Exec is the agent's view of a command that runs beside a process.
type Exec struct{ conn *carrier }

// beginExec sends the order of a command, and waits until that is started.
func beginExec(
	ctx context.Context, dir string, expected proc.Identity, order ExecOrder, files []*os.File,
) (*Exec, error) {
	conn, err := dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	e := &Exec{newCarrier(conn)}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(0, 1)) })
	defer stop()
	if err = checkPeer(conn, expected); err == nil {
		err = e.begin(order, files)
	}
	if err != nil {
		_ = conn.Close() // which ends the command, if it was started
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return e, nil
}

// begin sends the order with its files, and reads the first answer.
func (e *Exec) begin(order ExecOrder, files []*os.File) error {
	text, err := json.Marshal(request{Version: version, Do: doExec, Exec: &order})
	if err != nil {
		return err
	}
	if len(text) > maxRequest {
		return fmt.Errorf("%w: the command has more than %d bytes", ErrInvalid, maxRequest/2)
	}
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	// The files come with the first byte.
	n, _, err := e.conn.WriteMsgUnix(text, unix.UnixRights(fds...), nil)
	if err == nil && n < len(text) {
		_, err = e.conn.Write(text[n:])
	}
	var answer reply
	if err == nil {
		err = e.conn.decode(&answer)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return kinds.Err(answer.Outcome)
}

// Signal sends a signal to the process group that the command began.
func (e *Exec) Signal(number unix.Signal) error {
	return json.NewEncoder(e.conn).Encode(execSignal{number})
}

// Wait waits for the end of the command, of which nothing is left then. The error is ErrEnded if
// the supervisor has ended before it could say how.
func (e *Exec) Wait() (end ExecEnd, err error) {
	if e.conn.decode(&end) != nil {
		err = ErrEnded
	}
	return end, err
}

// Close ends the command, if it has not ended.
func (e *Exec) Close() error { return e.conn.Close() }

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
