package main

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cli/readiness"
)

// failingStore is a store that fails when the test says so.
type failingStore struct {
	failed chan struct{}
	err    error
}

func (f *failingStore) Failed() <-chan struct{} { return f.failed }
func (f *failingStore) Err() error              { return f.err }
func (f *failingStore) Close() error            { return nil }

// TestStoreFails: a controller whose etcd has ended by itself ends, too, and says why.
func TestStoreFails(t *testing.T) {
	lost := errors.New("the disk is gone")
	for _, test := range []struct {
		name string
		end  func(stop context.CancelFunc, f *failingStore)
		want error
	}{
		{"store fails", func(_ context.CancelFunc, f *failingStore) { close(f.failed) }, lost},
		{"told to stop", func(stop context.CancelFunc, _ *failingStore) { stop() }, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &failingStore{make(chan struct{}), lost}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended, line := start(ctx, t, f)
			if !strings.HasPrefix(line, "ready\t") {
				t.Fatalf("the controller said %q", line)
			}
			test.end(stop, f)
			err := <-ended
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if errors.Is(test.want, lost) && errors.Is(err, context.Canceled) {
				t.Errorf("%v looks like a stop that was asked for", err)
			}
		})
	}
}

// start runs a controller with a real store, and returns what it says when it serves.
func start(ctx context.Context, t *testing.T, kept failing) (ended chan error, line string) {
	t.Helper()
	dir := t.TempDir()
	c := defaults()
	c.Controller.StateDir = filepath.Join(dir, "state")
	c.Controller.Socket = filepath.Join(dir, "controller.sock")
	c.Metrics.Listen = "unix:" + filepath.Join(dir, "metrics.sock")
	c.Clusterfudge.Listen = "127.0.0.1:0"
	settings, err := c.settings("test")
	if err != nil {
		t.Fatal(err)
	}
	k := newController(c, settings, slog.New(slog.NewTextHandler(t.Output(), nil)))
	k.name = "c"
	running, err := k.openStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(k.objects.Close(), running.Close()) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k.address = listener.Addr().String()
	said, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	fd, err := unix.Dup(int(pipe.Fd())) // it belongs to the readiness pipe alone
	if err := errors.Join(err, pipe.Close()); err != nil {
		t.Fatal(err)
	}
	ready := readiness.OpenPipe(fd)
	ended = make(chan error, 1)
	go func() {
		err := k.run(ctx, kept, listener, ready)
		ready.Close()
		ended <- err
	}()
	line, _ = bufio.NewReader(said).ReadString('\n') // without a line, the caller sees that
	return ended, line
}
