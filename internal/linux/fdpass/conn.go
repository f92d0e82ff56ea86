// Package fdpass sends messages with open files between phosd and processes that it starts. Each
// message is one packet of JSON with its files as ancillary data. The peer is phosd, a root process
// that phosd has started, or a standby worker, which has no rights of root.
package fdpass

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxBytes is an upper bound for a message. The kernel rejects packets larger than its send buffer.
const maxBytes = 4 << 20

// MaxFiles is how many files the kernel passes in one packet.
const MaxFiles = 253

// Conn is one end of a connection.
type Conn struct{ socket *net.UnixConn }

// Pair returns both ends of a connection: near for this process, far for a child.
func Pair() (near *Conn, far *os.File, err error) {
	one, far, err := Link()
	if err != nil {
		return nil, nil, err
	}
	near, err = NewConn(one)
	if err != nil {
		return nil, nil, errors.Join(err, far.Close())
	}
	return near, far, nil
}

// Link returns both ends of a connection between two other processes.
func Link() (one, other *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), "fdpass"), os.NewFile(uintptr(pair[1]), "fdpass"), nil
}

// Inherited returns the end that a child has inherited as a descriptor.
func Inherited(fd int) (*Conn, error) {
	unix.CloseOnExec(fd)
	return NewConn(os.NewFile(uintptr(fd), "fdpass"))
}

// NewConn returns a Conn for a socket's file and closes the file.
func NewConn(file *os.File) (*Conn, error) {
	defer file.Close()
	// Most messages are short, but lists of processes may not be.
	_ = unix.SetsockoptInt(int(file.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, maxBytes)
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("pass files: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("pass files: not a unix socket"), conn.Close())
	}
	return &Conn{socket}, nil
}

// Send sends a message and files. The files stay open here.
func (c *Conn) Send(message any, files ...*os.File) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("pass files: %w", err)
	}
	if len(text) > maxBytes || len(files) > MaxFiles {
		return fmt.Errorf("pass files: %d bytes and %d files are too many for one message", len(text), len(files))
	}
	fds := make([]int, len(files))
	for i, file := range files {
		fds[i] = int(file.Fd())
	}
	var beside []byte
	if len(fds) > 0 {
		beside = unix.UnixRights(fds...)
	}
	if _, _, err := c.socket.WriteMsgUnix(text, beside, nil); err != nil {
		return fmt.Errorf("pass files: %w", err)
	}
	return nil
}

// Receive waits for a message. The error is io.EOF if the other end was closed. The caller closes
// the files.
func (c *Conn) Receive(message any) ([]*os.File, error) {
	text, beside := make([]byte, maxBytes), make([]byte, unix.CmsgSpace(MaxFiles*4))
	n, besides, flags, _, err := c.socket.ReadMsgUnix(text, beside)
	if err != nil {
		return nil, err
	}
	files, err := Files(beside[:besides])
	switch {
	case err != nil:
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("truncated")
	case n == 0 && len(files) == 0:
		return nil, io.EOF
	default:
		err = json.Unmarshal(text[:n], message)
	}
	if err != nil {
		Close(files)
		return nil, fmt.Errorf("pass files: %w", err)
	}
	return files, nil
}

// HungUp reports whether an error means that the other end was closed. A listener that is closed
// resets the connections that it has not accepted, so that already a request may fail.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// Deadline sets the deadline of Receive and Send; the zero time means none.
func (c *Conn) Deadline(at time.Time) error { return c.socket.SetDeadline(at) }

// Close closes this end; the other one notices at once.
func (c *Conn) Close() error { return c.socket.Close() }

// Close closes files.
func Close(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}
