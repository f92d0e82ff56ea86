package fdtoken

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

// sticky returns a file of which the close blocks until free is called: a TCP socket with unsent
// data, and SO_LINGER.
func sticky(t *testing.T) (file *os.File, free func()) {
	t.Helper()
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.DialTCP("tcp4", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetWriteBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	for err == nil { // until the buffers are full
		_, err = conn.Write(make([]byte, 1<<16))
	}
	if err := conn.SetLinger(1000); err != nil {
		t.Fatal(err)
	}
	if file, err = conn.File(); err != nil {
		t.Fatal(err)
	}
	// A reset ends the wait.
	free = sync.OnceFunc(func() {
		_ = peer.SetLinger(0)
		_ = peer.Close()
	})
	t.Cleanup(free)
	return file, free
}

// TestBlockingClose checks that files of which the close blocks delay no other user, and count as
// their user's until they are closed.
func TestBlockingClose(t *testing.T) {
	store := NewStore(Limits{Files: 2, Tokens: 1})
	alice, bob := api.Caller{UID: 1000}, api.Caller{UID: 1001}
	refused, freeRefused := sticky(t)
	dropped, freeDropped := sticky(t)
	name, err := store.keep(bob, []*os.File{dropped})
	if err != nil {
		t.Fatal(err)
	}
	refusedAll := make(chan error, 1)
	go func() {
		_, err := store.keep(bob, []*os.File{refused})
		refusedAll <- err
	}()
	done := make(chan error, 1)
	go func() {
		read, write, err := os.Pipe()
		if err == nil {
			defer write.Close()
			var kept token
			if kept, err = store.keep(alice, []*os.File{read}); err == nil {
				store.Drop(kept[:], alice)
			}
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a handoff waits for the close of another user's file")
	}
	store.Drop(name[:], bob)
	waitUntil(t, "the token is dropped", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return store.kept[name] == nil
	})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	if _, err := store.keep(bob, []*os.File{read}); !errors.Is(err, ErrTooMany) {
		t.Errorf("while a file is being closed: got %v, want ErrTooMany", err)
	}
	freeRefused()
	freeDropped()
	if err := <-refusedAll; !errors.Is(err, ErrTooMany) {
		t.Errorf("second token: got %v, want ErrTooMany", err)
	}
	waitUntil(t, "nothing is held", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return len(store.held) == 0
	})
}

// TestHeldIsReleased checks that the account of a user is empty after files are taken or expire.
func TestHeldIsReleased(t *testing.T) {
	store := NewStore(Limits{Files: 2, Tokens: 2, UserFiles: 3})
	user := api.Caller{UID: 1000}
	var names []token
	for range 2 {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		name, err := store.keep(user, []*os.File{file})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	files, err := store.Take(names[0][:], user)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(files)
	store.expire(names[0])
	store.expire(names[1])
	store.expire(names[1])
	if len(store.held) != 0 {
		t.Errorf("got %v, want nothing held", store.held)
	}
}

// waitUntil waits until something holds.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}
