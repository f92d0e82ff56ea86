package accept

import (
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness/scarce"
)

// TestAcceptWithoutDescriptors: some connections that arrive without a free descriptor are accepted
// with full set. Later ones are accepted as soon as one is closed.
func TestAcceptWithoutDescriptors(t *testing.T) {
	address := &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "socket")}
	socket, err := net.ListenUnix("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	for range reserve + 2 {
		caller, err := net.DialUnix("unix", nil, address)
		if err != nil {
			t.Fatal(err)
		}
		defer caller.Close()
	}
	in, err := New(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	enough := scarce.Files(t, 0)
	var inside []*net.UnixConn
	enter := func() {
		t.Helper()
		conn, full, err := in.Next()
		if err != nil || full == nil {
			t.Fatalf("a connection of the reserve: %v, %v", full, err)
		}
		if other, err := unix.Dup(0); err == nil {
			t.Errorf("descriptor %d was free beside the reserve", other)
		}
		inside = append(inside, conn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	for range reserve {
		enter()
	}
	_ = inside[0].Close()
	enter()
	enough()
	conn, full, err := in.Next()
	if err != nil || full != nil {
		t.Fatalf("with free descriptors: %v, %v", full, err)
	}
	_ = conn.Close()
	_ = socket.Close()
	if _, _, err := in.Next(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed socket: %v", err)
	}
}

// TestNewWithoutDescriptors: New fails if it cannot fill the reserve, and then keeps nothing.
func TestNewWithoutDescriptors(t *testing.T) {
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "socket")})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	enough := scarce.Files(t, reserve-1)
	for range 2 {
		if _, err := New(socket, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("got no error")
		}
		if left, err := unix.Dup(0); err != nil {
			t.Error("descriptors were kept")
		} else {
			_ = unix.Close(left)
		}
	}
	enough()
}
