package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// socket is a socket of which the tree holds an end.
type socket struct {
	places
	inode        uint64
	domain, kind int
	listening    bool
	// waiting is set while a TCP connection is being made, or waits for an accept.
	waiting bool
	// local and remote are unset for unix sockets and unconnected ones.
	local, remote netip.AddrPort
	// peerName is the name of a unix socket's other end. The kernel knows it even before accept and
	// after close.
	peerName   string
	peerPID    int
	unreadable bool
}

func (s *inspection) addSocket(m *member, d *proc.Descriptor) {
	found := s.sockets[d.Stat.Ino]
	if found == nil {
		found = &socket{inode: d.Stat.Ino}
		err := found.query(m.PID, d.Number)
		s.noteUnknown(err)
		found.unreadable = err != nil
		s.sockets[d.Stat.Ino] = found
	}
	found.add(m.PID, d.Number)
}

// query reads the properties of a socket from the kernel.
func (k *socket) query(pid, number int) error {
	file, err := proc.Borrow(pid, number)
	if err != nil {
		return err
	}
	defer file.Close()
	fd := int(file.Fd())
	if k.domain, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
		return fmt.Errorf("domain: %w", err)
	}
	if k.kind, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return fmt.Errorf("type: %w", err)
	}
	accepts, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	k.listening = accepts == 1
	if k.kind == unix.SOCK_STREAM && k.domain != unix.AF_UNIX {
		k.waiting = isWaiting(fd)
	}
	k.local, k.remote = addrPort(unix.Getsockname(fd)), addrPort(unix.Getpeername(fd))
	if peer, err := unix.Getpeername(fd); err == nil {
		if at, ok := peer.(*unix.SockaddrUnix); ok {
			k.peerName = at.Name
		}
	}
	if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		k.peerPID = int(cred.Pid)
	}
	return nil
}

// isWaiting reports whether a TCP connection is being made by a socket, or waits for its accept.
func isWaiting(fd int) bool {
	const synSent, synReceived, listens = 2, 3, 10 // include/net/tcp_states.h
	info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return false // of another protocol
	}
	// Of a listening socket, Unacked counts the connections that wait.
	return info.State == synSent || info.State == synReceived || info.State == listens && info.Unacked > 0
}

// addrPort returns an internet address, or the zero value.
func addrPort(address unix.Sockaddr, err error) netip.AddrPort {
	if err != nil {
		return netip.AddrPort{}
	}
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// checkSockets checks all sockets.
func (s *inspection) checkSockets() error {
	if len(s.sockets) == 0 {
		return nil
	}
	diag, err := unixSockets(s.members[0].PID, slices.Contains(s.Namespaces, "net"))
	if err != nil {
		return err
	}
	for _, inode := range slices.Sorted(maps.Keys(s.sockets)) {
		k := s.sockets[inode]
		switch {
		case k.unreadable:
		case k.domain == unix.AF_UNIX:
			s.checkUnix(k, diag)
		case k.domain == unix.AF_INET || k.domain == unix.AF_INET6:
			s.checkInternet(k)
		case k.domain == unix.AF_NETLINK || k.domain == unix.AF_PACKET && s.User.UID == 0:
		default:
			s.refuse(
				s.subject(&k.places),
				fmt.Sprintf("is a socket of family %d, which CRIU does not support", k.domain),
				"close it",
			)
		}
	}
	return nil
}

// checkInternet checks a TCP or UDP socket.
func (s *inspection) checkInternet(k *socket) {
	if k.waiting {
		s.note(ckpt.Obstacle{Subject: s.subject(&k.places), Reason: "has a TCP connection that is being made", Passing: true})
		return
	}
	if k.listening && k.local.IsValid() {
		s.Listening = append(s.Listening, k.local)
	}
	if k.listening || !k.remote.IsValid() {
		return
	}
	if k.kind != unix.SOCK_STREAM {
		// A datagram socket has no state but its two addresses.
		return
	}
	inside := slices.ContainsFunc(slices.Collect(maps.Values(s.sockets)), func(other *socket) bool {
		return other != k && other.local == k.remote && other.remote == k.local
	})
	repairs := s.repairsConnections()
	s.Connected = s.Connected || repairs
	switch {
	case !inside && repairs:
		s.note(ckpt.Obstacle{
			Subject: s.subject(&k.places), Reason: outsideText(k), Remedy: outsideRemedy, Remote: k.remote.Addr(),
		})
	case !inside:
		s.refuse(s.subject(&k.places), outsideText(k), outsideRemedy)
	case !repairs:
		s.refuse(
			s.subject(&k.places),
			fmt.Sprintf("is a TCP connection from %s to %s; only root's can be saved", k.local, k.remote),
			"let the processes use unix sockets or pipes",
		)
	}
}

// outsideText says of a connection that its other end is not saved.
func outsideText(k *socket) string {
	return fmt.Sprintf("is a TCP connection from %s to %s, outside of the program", k.local, k.remote)
}

// outsideRemedy is what can be done about it.
const outsideRemedy = "close the connection before, or have the program connect again later"

// repairsConnections reports whether CRIU, with the tree's user, may save and restore TCP
// connections: as root, or where the tree's network namespace belongs to a user namespace of that
// user. The kernel gives the owner of one all capabilities in it.
func (s *inspection) repairsConnections() bool {
	if s.User.UID == 0 {
		return true
	}
	if !slices.Contains(s.Namespaces, "net") {
		return false
	}
	owner, err := proc.NetworkOwner(s.members[0].PID)
	return err == nil && owner == s.User.UID
}

// journal is the directory of the systemd journal's sockets.
const journal = "/run/systemd/journal/"

// checkUnix checks a unix socket.
func (s *inspection) checkUnix(k *socket, diag map[uint32]unixSocket) {
	entry, there := diag[uint32(k.inode)]
	if room := filepath.Dir(entry.name); filepath.IsAbs(entry.name) && !slices.Contains(s.SocketDirs, room) {
		s.SocketDirs = append(s.SocketDirs, room)
	}
	if !there || k.listening || entry.state != established && entry.peer == 0 {
		return
	}
	if _, ok := s.sockets[uint64(entry.peer)]; ok && entry.peer != 0 {
		return
	}
	peer := diag[entry.peer]
	other := "to an end that is closed"
	switch {
	case entry.peer != 0 && peer.name != "":
		other = fmt.Sprintf("to %s", peer.name)
	case entry.peer != 0:
		other = fmt.Sprintf("to pid %d (%s)", k.peerPID, processName(k.peerPID))
	}
	switch {
	case s.Ours(cmp.Or(peer.name, k.peerName)):
		s.note(ckpt.Obstacle{Subject: s.subject(&k.places), Reason: "is connecting to phosd", Passing: true})
	case k.kind == unix.SOCK_DGRAM && strings.HasPrefix(peer.name, "/"):
		s.Datagrams = true
	case k.kind == unix.SOCK_STREAM && (k.anyStandard() || strings.HasPrefix(peer.name, journal)):
		s.addEndpoint(image.Endpoint{
			Kind: "stream-socket", Key: fmt.Sprintf("socket:[%d]", k.inode), Descriptors: k.list(),
			Standard: k.standard(s.members[0].PID),
		})
		s.External = append(s.External, fmt.Sprintf("unix[%d]", k.inode))
	default:
		s.refuse(
			s.subject(&k.places),
			"is a unix socket connected "+other+", outside of the program",
			"close the connection before",
		)
	}
}

// processName returns the command name of a process, or "exited".
func processName(pid int) string {
	if name := (proc.Identity{PID: pid}).Name(); name != "" {
		return name
	}
	return "exited"
}
