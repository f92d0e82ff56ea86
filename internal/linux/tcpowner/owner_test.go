package tcpowner

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// alice and bob are two ordinary users.
const (
	alice = 61241
	bob   = 61242
)

// user is a process of a user with a connection.
type user struct {
	command *exec.Cmd
	out     io.Reader
	port    string
}

// reset makes the user's process reset its connection, and waits until it has.
func (u *user) reset(t *testing.T) {
	t.Helper()
	if err := u.command.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var said string
	if _, err := fmt.Fscanln(u.out, &said); err != nil || said != "reset" {
		t.Fatalf("%q, %v", said, err)
	}
}

// listen listens at an address until the test ends.
func listen(t *testing.T, network, address string) *net.TCPListener {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.(*net.TCPListener)
}

// accept accepts a connection until the test ends.
func accept(t *testing.T, listener *net.TCPListener) *net.TCPConn {
	t.Helper()
	conn, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// port returns the port of a listener.
func port(listener *net.TCPListener) int { return listener.Addr().(*net.TCPAddr).Port }

// TestOwnUser needs no privileges: each form of addresses at either end.
func TestOwnUser(t *testing.T) {
	for _, test := range []struct{ network, listens, dials string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1:%d"},
		{"tcp4", "127.0.0.1:0", "[::ffff:127.0.0.1]:%d"},
		{"tcp4", "127.1.2.3:0", "127.1.2.3:%d"},
		{"tcp", "[::]:0", "127.0.0.1:%d"},
		{"tcp6", "[::1]:0", "[::1]:%d"},
	} {
		t.Run(fmt.Sprintf("%s %s", test.listens, test.dials), func(t *testing.T) {
			listener := listen(t, test.network, test.listens)
			client, err := dialFrom(fmt.Sprintf(test.dials, port(listener)), "")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if uid, err := Of(accept(t, listener)); err != nil || uid != uint32(os.Getuid()) {
				t.Errorf("user %d, %v, want %d", uid, err, os.Getuid())
			}
		})
	}
}

// TestMapped connects a socket of version 6 to an address of version 4, which stands in the other
// table than that of the listener.
func TestMapped(t *testing.T) {
	listener := listen(t, "tcp4", "127.0.0.1:0")
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	to := unix.SockaddrInet6{Port: port(listener), Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}
	if err := unix.Connect(fd, &to); err != nil {
		t.Skip(err)
	}
	if uid, err := Of(accept(t, listener)); err != nil || uid != uint32(os.Getuid()) {
		t.Errorf("user %d, %v, want %d", uid, err, os.Getuid())
	}
}

// TestTwoUsers has connections of two users and root at once, and asks for them in another order.
func TestTwoUsers(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	listener := listen(t, "tcp", "localhost:0")
	byPort := map[string]uint32{}
	for range 3 {
		for _, uid := range []uint32{alice, bob, 0} {
			byPort[startClient(t, uid, listener.Addr().String(), "").port] = uid
		}
	}
	conns := map[string]*net.TCPConn{}
	for range byPort {
		conn := accept(t, listener)
		_, from, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns[from] = conn
	}
	for from, want := range byPort {
		if uid, err := Of(conns[from]); err != nil || uid != want {
			t.Errorf("port %s: user %d, %v, want %d", from, uid, err, want)
		}
	}
}

// TestPortTakenOver: alice resets a connection, and root connects from the port that was hers. The
// connection that she had must not become root's.
func TestPortTakenOver(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	listener := listen(t, "tcp4", "127.0.0.1:0")
	hers := startClient(t, alice, listener.Addr().String(), "")
	first := accept(t, listener)
	if uid, err := Of(first); err != nil || uid != alice {
		t.Fatalf("user %d, %v, want alice", uid, err)
	}
	hers.reset(t)
	startClient(t, 0, listener.Addr().String(), hers.port)
	second := accept(t, listener)
	if second.RemoteAddr().String() != first.RemoteAddr().String() {
		t.Fatalf("from %v, want the same address as %v", second.RemoteAddr(), first.RemoteAddr())
	}
	if uid, err := Of(second); err != nil || uid != 0 {
		t.Errorf("the new connection: user %d, %v, want root", uid, err)
	}
	if uid, err := Of(first); !errors.Is(err, ErrUnknown) {
		t.Errorf("the old connection: user %d, %v, want ErrUnknown", uid, err)
	}
}

func TestClosed(t *testing.T) {
	listener := listen(t, "tcp4", "127.0.0.1:0")
	for _, side := range []string{"peer", "own"} {
		client, err := dialFrom(listener.Addr().String(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server := accept(t, listener)
		if side == "peer" {
			_ = client.CloseWrite()
			if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if uid, err := Of(server); !errors.Is(err, ErrUnknown) {
				t.Errorf("closed by the peer: user %d, %v, want ErrUnknown", uid, err)
			}
			continue
		}
		_ = server.Close()
		if uid, err := Of(server); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed by this side: user %d, %v, want net.ErrClosed", uid, err)
		}
	}
}

// TestNotLoopback connects to this machine's own address, which is no proof of anything.
func TestNotLoopback(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		ip := address.(*net.IPNet).IP
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		listener := listen(t, "tcp", net.JoinHostPort(ip.String(), "0"))
		client, err := dialFrom(listener.Addr().String(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if uid, err := Of(accept(t, listener)); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("%v: user %d, %v, want ErrNotLoopback", ip, uid, err)
		}
		return
	}
	t.Skip("this machine has no address but loopback's")
}

// TestOtherNamespace: the connection of another network namespace has the same addresses as one
// here, which is another user's.
func TestOtherNamespace(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	there, client := connectElsewhere(t)
	defer client.Close()
	defer there.Close()
	if uid, err := Of(there); !errors.Is(err, ErrUnknown) {
		t.Errorf("user %d, %v, want ErrUnknown", uid, err)
	}
	here := listen(t, "tcp4", there.LocalAddr().String())
	_, from, _ := net.SplitHostPort(client.LocalAddr().String())
	startClient(t, alice, here.Addr().String(), from)
	same := accept(t, here)
	if uid, err := Of(same); err != nil || uid != alice {
		t.Fatalf("user %d, %v, want alice", uid, err)
	}
	if uid, err := Of(there); !errors.Is(err, ErrUnknown) {
		t.Errorf("with the same addresses here: user %d, %v, want ErrUnknown", uid, err)
	}
}

// connectElsewhere returns both ends of a connection in a network namespace of its own.
func connectElsewhere(t *testing.T) (server, client *net.TCPConn) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the namespace is left
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = raiseLoopback()
		}
		if err == nil {
			server, client, err = connect()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		harness.Need(t, "netns", err)
	}
	return server, client
}

// raiseLoopback brings up the loopback interface of this thread's namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, loopback)
}

// connect returns both ends of a connection, made by system calls of this thread alone. The ports
// are below those that the kernel gives to clients: other tests must not have them where they are
// used again.
func connect() (server, client *net.TCPConn, err error) {
	at := func() *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10000 + rand.IntN(20000)} }
	listener, err := net.ListenTCP("tcp4", at())
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	if client, err = net.DialTCP("tcp4", at(), listener.Addr().(*net.TCPAddr)); err != nil {
		return nil, nil, err
	}
	server, err = listener.AcceptTCP()
	return server, client, err
}
