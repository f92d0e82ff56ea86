package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/namespace"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// unixSocket is the kernel's description of a unix socket.
type unixSocket struct {
	state byte
	peer  uint32
	name  string
}

// Numbers of the kernel's socket diagnosis.
const (
	established    = 1
	byFamily       = 20
	showName       = 1
	showPeer       = 4
	attributeName  = 0
	attributePeer  = 2
	headerBytes    = 16
	messageBytes   = 16
	attributeBytes = 4
	answerBytes    = 32 << 10
)

var errDiag = errors.New("answer of the kernel about unix sockets")

// unixSockets lists the unix sockets of the network namespace of a process, by inode.
func unixSockets(pid int, elsewhere bool) (found map[uint32]unixSocket, err error) {
	if !elsewhere {
		return askUnixSockets()
	}
	space, err := proc.OpenNamespace(pid, "net")
	if err != nil {
		return nil, err
	}
	defer space.Close()
	err = namespace.Do([]*os.File{space}, func() (err error) {
		found, err = askUnixSockets()
		return err
	})
	return found, err
}

// askUnixSockets lists the unix sockets of the calling thread's network namespace, by inode.
func askUnixSockets() (map[uint32]unixSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("unix sockets: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("unix sockets: %w", err)
	}
	found := map[uint32]unixSocket{}
	answer := make([]byte, answerBytes)
	for {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return nil, fmt.Errorf("unix sockets: %w", err)
		}
		more, err := parseDiag(answer[:n], found)
		if err != nil {
			return nil, fmt.Errorf("unix sockets: %w", err)
		}
		if !more {
			return found, nil
		}
	}
}

// diagRequest returns the request for all unix sockets with their names and peers.
func diagRequest() []byte {
	const bytes = headerBytes + 24
	request := make([]byte, bytes)
	order := binary.NativeEndian
	order.PutUint32(request[0:], bytes)
	order.PutUint16(request[4:], byFamily)
	order.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[headerBytes] = unix.AF_UNIX
	order.PutUint32(request[headerBytes+4:], ^uint32(0))
	order.PutUint32(request[headerBytes+12:], showName|showPeer)
	return request
}

// parseDiag reads messages; more is set if others will follow.
func parseDiag(answer []byte, found map[uint32]unixSocket) (more bool, err error) {
	order := binary.NativeEndian
	for len(answer) >= headerBytes {
		length := int(order.Uint32(answer))
		if length < headerBytes || length > len(answer) {
			return false, errDiag
		}
		switch order.Uint16(answer[4:]) {
		case unix.NLMSG_DONE:
			return false, nil
		case unix.NLMSG_ERROR:
			return false, fmt.Errorf("%w: error", errDiag)
		case byFamily:
			if err := parseSocket(answer[headerBytes:length], found); err != nil {
				return false, err
			}
		}
		answer = answer[min(align(length), len(answer)):]
	}
	return true, nil
}

// align rounds up to the alignment of netlink.
func align(length int) int { return (length + 3) &^ 3 }

func parseSocket(message []byte, found map[uint32]unixSocket) error {
	if len(message) < messageBytes {
		return errDiag
	}
	order := binary.NativeEndian
	socket := unixSocket{state: message[2]}
	inode := order.Uint32(message[4:])
	for rest := message[messageBytes:]; len(rest) >= attributeBytes; {
		length := int(order.Uint16(rest))
		if length < attributeBytes || length > len(rest) {
			return errDiag
		}
		value := rest[attributeBytes:length]
		switch order.Uint16(rest[2:]) {
		case attributePeer:
			if len(value) >= 4 {
				socket.peer = order.Uint32(value)
			}
		case attributeName:
			socket.name = strings.ReplaceAll(strings.TrimRight(string(value), "\x00"), "\x00", "@")
		}
		rest = rest[min(align(length), len(rest)):]
	}
	found[inode] = socket
	return nil
}
