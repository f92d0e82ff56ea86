package intake

import (
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// full lets this process open nothing more until the test ends, or what it returns is called.
func full(t *testing.T) (enough func()) {
	t.Helper()
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &all); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: uint64(free), Max: all.Max}
	if err := errors.Join(unix.Close(free), unix.Setrlimit(unix.RLIMIT_NOFILE, &few)); err != nil {
		t.Fatal(err)
	}
	enough = func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &all); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(enough)
	return enough
}

// TestNoneLeft: some who come while nothing more can be opened are let in, and are known as such; who comes after them is as soon
// as one has gone.
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
	in := New(socket, slog.New(slog.DiscardHandler))
	enough := full(t)
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
