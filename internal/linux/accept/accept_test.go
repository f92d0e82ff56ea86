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

// TestNoneLeft: some who come while nothing more can be opened are let in, and are known as such;
// who comes after them is as soon as one has gone.
func TestNoneLeft(t *testing.T) {
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
		t.Fatalf("there are descriptors again: %v, %v", full, err)
	}
	_ = conn.Close()
	_ = socket.Close()
	if _, _, err := in.Next(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the socket is closed: %v", err)
	}
}

// TestNothingToKeep: who can keep nothing back says so, and keeps nothing then.
func TestNothingToKeep(t *testing.T) {
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "socket")})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	enough := scarce.Files(t, reserve-1)
	for range 2 {
		if _, err := New(socket, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("it says nothing")
		}
		if left, err := unix.Dup(0); err != nil {
			t.Error("it keeps something")
		} else {
			_ = unix.Close(left)
		}
	}
	enough()
}
