package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/accept"
	"github.com/phos-gpu/phos/internal/linux/peer"
)

// requestTime is how long a connection may take for its request.
const requestTime = 10 * time.Second

// listen opens the socket in the run directory, and answers requests on it.
func (s *supervisor) listen() error {
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketPath(s.locked), Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	socket.SetUnlinkOnClose(false)
	acceptor, err := accept.New(socket, s.log)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	go func() {
		for {
			conn, _, err := acceptor.Next()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return nil
}

// serve answers the request of one connection.
func (s *supervisor) serve(conn *net.UnixConn) {
	defer conn.Close()
	from, err := peer.Of(conn)
	if err != nil || int(from.UID) != os.Geteuid() {
		s.log.Warn("connection refused", "user", from.UID, "error", err)
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(requestTime)) // fails only if it is closed
	var r request
	with := newCarrier(conn)
	defer with.close()
	if err := with.decode(&r); err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if r.Do == doExec && r.Exec != nil {
		s.serveExec(with, *r.Exec)
		return
	}
	status, err := s.answer(conn, r)
	// If the agent is gone, it asks again.
	_ = json.NewEncoder(conn).Encode(reply{Outcome: kinds.Outcome(err), Status: status})
}

// answer does what a request asks for.
func (s *supervisor) answer(conn *net.UnixConn, r request) (*Status, error) {
	switch r.Do {
	case askStatus, askStarted, askEnd:
		return s.awaitFor(conn, r.Do)
	case doExtend:
		return nil, s.extend(r.Until)
	case doStop:
		s.end(Stopped, r.Grace, "stopped")
		return nil, nil
	case doKill:
		return nil, s.killNow(Killed, "killed")
	case doSignal:
		if s.order.Trunk != nil {
			return nil, s.signalChild(r.Process, r.Signal)
		}
		return nil, s.children.signal(r.Process, r.Signal)
	case doExec: // without an order; serveExec does the others
	}
	return nil, fmt.Errorf("%w: %.20q; this supervisor is of version %d", ErrRefused, r.Do, version)
}

// extend moves the deadline.
func (s *supervisor) extend(until time.Duration) error {
	if s.course.state() == Ended {
		return ErrEnded
	}
	return s.fence.extend(until)
}

// awaitFor returns the Status when it is as asked for, or the agent is gone.
func (s *supervisor) awaitFor(conn *net.UnixConn, what verb) (*Status, error) {
	gone := make(chan struct{})
	go func() {
		// There is nothing more to read: this ends when the other end does.
		_, _ = conn.Read(make([]byte, 1))
		close(gone)
	}()
	if what == askEnd {
		select {
		case <-s.published:
		case <-gone:
		}
	}
	status, _ := s.course.await(gone, func(status *Status) bool {
		return what != askStarted || status.State != Starting
	})
	return &status, nil
}

// stopOnSignal ends the attempt when the supervisor itself is told to end.
func (s *supervisor) stopOnSignal(caught <-chan os.Signal) {
	for range caught {
		s.end(Stopped, s.order.Grace, fmt.Sprintf("the supervisor was told to end by signal %d", unix.SIGTERM))
	}
}
