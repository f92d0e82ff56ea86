package fdtoken

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// open returns a store that serves a socket.
func open(t *testing.T, limits Limits) (socket string, store *Store, others *Listener) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	store = NewStore(limits)
	if others, err = NewListener(listener, store, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(others.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return socket, store, others
}

// contents returns files that contain their indices.
func contents(t *testing.T, count int) []*os.File {
	t.Helper()
	dir := t.TempDir()
	files := make([]*os.File, count)
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint("file", i))
		if err := os.WriteFile(path, fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		files[i] = file
	}
	return files
}

func self() api.Caller {
	id, _ := proc.Of(os.Getpid()) // a wrong identity fails the tests
	return api.Caller{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Process: id}
}

func TestSend(t *testing.T) {
	for _, count := range []int{1, groupFiles, groupFiles + 1, 3*groupFiles + 7} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			socket, store, _ := open(t, Limits{Files: count, Tokens: 1})
			files := contents(t, count)
			token, err := Send(t.Context(), socket, files)
			if err != nil {
				t.Fatal(err)
			}
			taken, err := store.Take(token, self())
			if err != nil || len(taken) != count {
				t.Fatalf("%d files, want %d: %v", len(taken), count, err)
			}
			defer closeAll(taken)
			for i, file := range taken {
				got, err := io.ReadAll(file)
				if string(got) != fmt.Sprint(i) || err != nil {
					t.Errorf("file %d holds %q: %v", i, got, err)
				}
				if file.Name() != files[i].Name() {
					t.Errorf("file %d has name %s, want %s", i, file.Name(), files[i].Name())
				}
			}
			if _, err := store.Take(token, self()); !errors.Is(err, ErrToken) {
				t.Errorf("second Take: got %v, want ErrToken", err)
			}
		})
	}
}

func TestTakeRefuses(t *testing.T) {
	socket, store, _ := open(t, Limits{Files: 2, Tokens: 2})
	token, err := Send(t.Context(), socket, contents(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	other, longer := append([]byte{}, token...), append([]byte{0}, token...)
	other[7]++
	otherUser, otherProcess := self(), self()
	otherUser.UID++
	otherProcess.Process.StartTicks++
	for name, wrong := range map[string]struct {
		token  []byte
		caller api.Caller
	}{
		"wrong token":                 {other, self()},
		"no token":                    {nil, self()},
		"a longer token":              {longer, self()},
		"another user":                {token, otherUser},
		"another process of the user": {token, otherProcess},
	} {
		if files, err := store.Take(wrong.token, wrong.caller); !errors.Is(err, ErrToken) || files != nil {
			t.Errorf("%s: %v, want ErrToken", name, err)
		}
	}
	files, err := store.Take(token, self())
	if err != nil {
		t.Fatalf("Take after refused attempts: %v", err)
	}
	closeAll(files)
}

func TestLimits(t *testing.T) {
	socket, store, _ := open(t, Limits{Files: 3, Tokens: 2})
	if _, err := Send(t.Context(), socket, contents(t, 4)); !errors.Is(err, ErrTooMany) {
		t.Errorf("four files: %v, want ErrTooMany", err)
	}
	if _, err := Send(t.Context(), socket, nil); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("no files: %v, want ErrInvalid", err)
	}
	first, err := Send(t.Context(), socket, contents(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Send(t.Context(), socket, contents(t, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Send(t.Context(), socket, contents(t, 1)); !errors.Is(err, ErrTooMany) {
		t.Errorf("a third token: %v, want ErrTooMany", err)
	}
	files, err := store.Take(first, self())
	if err != nil {
		t.Fatal(err)
	}
	closeAll(files)
	if _, err := Send(t.Context(), socket, contents(t, 1)); err != nil {
		t.Errorf("Send after Take: %v", err)
	}
}

// TestLimitsAreEachUsers checks that the limit of tokens applies to each user.
func TestLimitsAreEachUsers(t *testing.T) {
	store := NewStore(Limits{Files: 1, Tokens: 1})
	defer store.Close()
	for uid := range uint32(5) {
		if _, err := store.keep(api.Caller{UID: uid}, contents(t, 1)); err != nil {
			t.Errorf("user %d: %v", uid, err)
		}
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewStore(Limits{Files: 1, Tokens: 2})
		old := contents(t, 1)
		first, err := store.keep(self(), old)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepTime - time.Second)
		second, err := store.keep(self(), contents(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := store.Take(first[:], self()); !errors.Is(err, ErrToken) {
			t.Errorf("expired token: got %v, want ErrToken", err)
		}
		if _, err := old[0].Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the file is still open: %v", err)
		}
		files, err := store.Take(second[:], self())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * keepTime)
		if _, err := files[0].Stat(); err != nil {
			t.Errorf("taken file was closed: %v", err)
		}
		closeAll(files)
	})
}

// A malformed handoff leaves no file open and no token.
func TestMalformed(t *testing.T) {
	file := contents(t, 1)[0]
	word := func(values ...uint32) (data []byte) {
		for _, v := range values {
			data = binary.LittleEndian.AppendUint32(data, v)
		}
		return data
	}
	for name, messages := range map[string][]struct {
		data  []byte
		files int
	}{
		"fewer files than announced": {{word(Magic, 2), 0}, {word(2), 1}},
		"more files than announced":  {{word(Magic, 1), 0}, {word(2), 2}},
		"an empty group":             {{word(Magic, 1), 0}, {word(0), 0}},
		"files with the head":        {{word(Magic, 1), 1}, {word(1), 0}},
		"a connection that ends":     {{word(Magic, 2), 0}, {word(1), 1}},
		"a group cut short":          {{word(Magic, 1), 0}, {[]byte{1, 0}, 1}},
		"more than fit in a group":   {{word(Magic, 200), 0}, {word(200), 200}},
	} {
		t.Run(name, func(t *testing.T) {
			socket, store, _ := open(t, Limits{Files: 250, Tokens: 1})
			before := descriptors(t)
			conn, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			peer := conn.(*net.UnixConn)
			defer peer.Close()
			for _, message := range messages {
				fds := make([]int, message.files)
				for i := range fds {
					fds[i] = int(file.Fd())
				}
				var rights []byte
				if len(fds) > 0 {
					rights = unix.UnixRights(fds...)
				}
				if _, _, err := peer.WriteMsgUnix(message.data, rights, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := peer.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if token, err := readAnswer(peer); err == nil {
				t.Errorf("got token %x, want an error", token)
			}
			// The server closes the connection after the answer.
			if _, err := io.ReadAll(peer); err != nil && !errors.Is(err, unix.ECONNRESET) {
				t.Error(err)
			}
			if len(store.kept) != 0 {
				t.Error("the store holds a token")
			}
			if after := descriptors(t); after > before+1 { // the peer's own
				t.Errorf("%d open descriptors, %d before", after, before)
			}
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestListenerPassesOthersOn checks that gRPC connections reach Accept with all their data.
func TestListenerPassesOthersOn(t *testing.T) {
	socket, _, others := open(t, Limits{Files: 1, Tokens: 1})
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PRI * HTTP/2.0")); err != nil {
		t.Fatal(err)
	}
	accepted, err := others.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	got := make([]byte, 14)
	if _, err := io.ReadFull(accepted, got); err != nil || string(got) != "PRI * HTTP/2.0" {
		t.Errorf("%q: %v", got, err)
	}
}

// Send does not wait forever for a server that never answers.
func TestSendEnds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "silent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	if _, err := Send(ctx, socket, contents(t, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if _, err := send(t.Context(), socket, contents(t, 1), time.Millisecond); !errors.Is(err, api.ErrNoAnswer) {
		t.Errorf("%v, want ErrMute", err)
	}
	if _, err := Send(t.Context(), socket+"x", contents(t, 1)); !errors.Is(err, os.ErrNotExist) ||
		!errors.Is(err, api.ErrNoDaemon) {
		t.Errorf("no socket: %v", err)
	}
}

// TestSendToOneThatEnds: a peer that ends during a handoff is no peer, as one that was not there.
func TestSendToOneThatEnds(t *testing.T) {
	for _, reads := range []bool{false, true} {
		socket := filepath.Join(t.TempDir(), "ends")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := listener.Accept(); err == nil {
				if reads {
					_, _ = conn.Read(make([]byte, 64))
				}
				_ = conn.Close()
			}
		}()
		if _, err := Send(t.Context(), socket, contents(t, 1)); !errors.Is(err, api.ErrNoDaemon) ||
			!strings.Contains(err.Error(), socket) {
			t.Errorf("it has read: %v: %v, want ErrNoDaemon", reads, err)
		}
		_ = listener.Close()
	}
}
