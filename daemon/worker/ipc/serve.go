package ipc

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/linux/accept"
	"github.com/phos-gpu/phos/internal/linux/peer"
)

// ErrTaken is returned when another session serves the same grants. It is the session from which a
// restored one was saved.
var ErrTaken = errors.New("another session exports memory under the same tokens")

// talkTime is the timeout for a request or a reply.
const talkTime = 20 * time.Second

// Server serves the grants of a session.
type Server struct {
	socket   *net.UnixListener
	acceptor *accept.Acceptor
	grant    func(kind Kind, key ID) (Grant, error)
}

// Serve starts a server that sends what grant returns to workers of the same user. grant may be
// called concurrently.
func (d Dir) Serve(exporter ID, grant func(kind Kind, key ID) (Grant, error)) (*Server, error) {
	socket, err := d.listen(exporter)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("export memory: %w", err)
	}
	connections, err := accept.New(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export memory: %w", err), socket.Close())
	}
	s := &Server{socket, connections, grant}
	go s.accept()
	return s, nil
}

// listen listens at an exporter's address. A socket file without a listener was left by a worker
// that was killed, and is replaced.
func (d Dir) listen(exporter ID) (*net.UnixListener, error) {
	socket, err := net.ListenUnix("unixpacket", d.address(exporter))
	if !errors.Is(err, unix.EADDRINUSE) || d == "" {
		return socket, err
	}
	// The lock keeps two sessions from replacing each other's socket.
	directory, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	if err := unix.Flock(int(directory.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	if d.Alive(exporter) {
		return nil, unix.EADDRINUSE
	}
	if err := os.Remove(d.address(exporter).Name); err != nil {
		return nil, err
	}
	return net.ListenUnix("unixpacket", d.address(exporter))
}

// Close stops the server.
func (s *Server) Close() { _ = s.socket.Close() }

// accept serves each connection until the socket is closed.
func (s *Server) accept() {
	for {
		conn, _, err := s.acceptor.Next() // a reply needs no new file descriptor
		if err != nil {
			return
		}
		go s.answer(conn)
	}
}

// answer serves one request of the same user. It sends a code, and on success the granted file.
func (s *Server) answer(conn *net.UnixConn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(talkTime))
	if sameUser(conn) != nil {
		return
	}
	frame := make([]byte, requestBytes+1)
	n, err := conn.Read(frame)
	if err != nil {
		return
	}
	kind, key, err := parseRequest(frame[:n])
	var g Grant
	if err == nil {
		g, err = s.grant(kind, key)
	}
	if err != nil {
		_, _ = conn.Write(g.reply(codeOf(err)))
		return
	}
	defer g.File.Close()
	_, _, _ = conn.WriteMsgUnix(g.reply(abi.Success), unix.UnixRights(int(g.File.Fd())), nil)
}

// codeOf returns the result in err, or Unknown.
func codeOf(err error) abi.Result {
	var code abi.Result
	if errors.As(err, &code) && code != abi.Success {
		return code
	}
	return abi.Unknown
}

// sameUser returns an error if the peer is a process of another user.
func sameUser(conn *net.UnixConn) error {
	found, err := peer.Of(conn)
	switch {
	case err != nil:
		return err
	case int(found.UID) != os.Geteuid():
		return fmt.Errorf("peer has uid %d: %w", found.UID, abi.NotPermitted)
	}
	return nil
}
