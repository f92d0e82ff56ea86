package tcpport

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// exclusive listens without SO_REUSEADDR, which Go always sets.
func exclusive(address string) (net.Listener, error) {
	family, at := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if strings.HasPrefix(address, "[") {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}}
	}
	_, port, _ := net.SplitHostPort(address)
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	switch a := at.(type) {
	case *unix.SockaddrInet4:
		a.Port = number
	case *unix.SockaddrInet6:
		a.Port = number
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	if err := unix.Bind(fd, at); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return nil, err
	}
	return net.FileListener(file)
}

// closedByServer makes a connection to a listener and closes it, first the server's end: the port
// of the listener stays taken. unplug is called with the server's end before.
func closedByServer(t *testing.T, address string, unplug func(*os.File)) string {
	t.Helper()
	listener, err := exclusive(address)
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	file, err := server.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	unplug(file)
	_, _, _ = file.Close(), server.Close(), listener.Close()
	_ = client.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // an unplugged end says nothing
	_, _ = io.Copy(io.Discard, client)
	_ = client.Close()
	return listener.Addr().String()
}

// TestFree takes the port of a listener again, whose connections have been closed in order.
func TestFree(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		taken := closedByServer(t, address, func(*os.File) {})
		own := netip.MustParseAddrPort(taken)
		others := []netip.AddrPort{
			netip.AddrPortFrom(own.Addr(), own.Port()+1), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), own.Port()),
		}
		if listener, err := exclusive(taken); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("%s is not taken: %v, %v", taken, listener, err)
		}
		harness.Need(t, "root", harness.Root())
		if err := Free(others); err != nil {
			t.Fatal(err)
		}
		if _, err := exclusive(taken); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s is freed with another address: %v", taken, err)
		}
		if err := Free([]netip.AddrPort{own}); err != nil {
			t.Fatal(err)
		}
		listener, err := exclusive(taken)
		if err != nil {
			t.Fatalf("after Free: %v", err)
		}
		_ = listener.Close()
	}
}

// TestUnplug closes a connection that leaves nothing behind.
func TestUnplug(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	left := closedByServer(t, "127.0.0.1:0", func(socket *os.File) {
		if err := Unplug(socket); err != nil {
			t.Error(err)
		}
	})
	listener, err := exclusive(left)
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
}

// TestUnplugOthers checks that other sockets are left alone.
func TestUnplugOthers(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range ends {
		file := os.NewFile(uintptr(end), "end")
		defer file.Close()
		if err := Unplug(file); err != nil {
			t.Error(err)
		}
	}
}
