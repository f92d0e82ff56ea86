package fdtoken

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/accept"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
)

// acceptTime is the timeout for the handoff on a connection.
const acceptTime = 5 * time.Second

// Accept serves a connection that begins with Magic, and closes it. The error is for the log; the
// peer has received it too.
func (s *Store) Accept(conn *net.UnixConn) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(acceptTime)); err != nil {
		return fmt.Errorf("accept files: %w", err)
	}
	owner, err := api.PeerOf(conn)
	if err != nil {
		return fmt.Errorf("accept files: %w", err)
	}
	files, err := s.receive(conn)
	var name token
	if err == nil {
		name, err = s.keep(owner, files)
	}
	_, failure := conn.Write(appendAnswer(nil, name, err))
	if err == nil && failure != nil {
		s.expire(name) // the peer did not get the token
	}
	if err = errors.Join(err, failure); err != nil {
		return fmt.Errorf("accept files from pid %d of user %d: %w", owner.Process.PID, owner.UID, err)
	}
	return nil
}

// receive reads all files of a connection. If it fails it closes them.
func (s *Store) receive(conn *net.UnixConn) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	var head [headBytes]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	count := binary.LittleEndian.Uint32(head[4:])
	switch {
	case binary.LittleEndian.Uint32(head[:]) != Magic || count == 0:
		return nil, fmt.Errorf("%w: no files", errMessage)
	case uint64(count) > uint64(s.limits.Files):
		return nil, fmt.Errorf("%w: %d, at most %d", ErrTooMany, count, s.limits.Files)
	}
	for len(files) < int(count) {
		group, err := receiveGroup(conn)
		files = append(files, group...)
		if err != nil {
			return files, err
		}
		if len(files) > int(count) {
			return files, fmt.Errorf("%w: got %d files, want %d", errMessage, len(files), count)
		}
	}
	return files, nil
}

// receiveGroup reads one message. It returns the received files also with an error, for the caller
// to close.
func receiveGroup(conn *net.UnixConn) ([]*os.File, error) {
	var content [groupBytes]byte
	control := make([]byte, unix.CmsgSpace(4*groupFiles))
	n, used, flags, _, err := conn.ReadMsgUnix(content[:], control)
	if err != nil {
		return nil, err
	}
	files, err := fdpass.Files(control[:used])
	switch {
	case err != nil:
		return files, fmt.Errorf("%w: %w", errMessage, err)
	case flags&unix.MSG_CTRUNC != 0:
		return files, fmt.Errorf("%w: %w", ErrTooMany, accept.Full())
	case n == 0:
		return files, io.ErrUnexpectedEOF
	case n != groupBytes || len(files) == 0 || int64(binary.LittleEndian.Uint32(content[:])) != int64(len(files)):
		return files, fmt.Errorf("%w: %d files in a group", errMessage, len(files))
	}
	return files, nil
}
