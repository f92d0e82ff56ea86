package fdtoken

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
)

// pipeOrSocketPair returns both ends of a blocking pipe or socket pair.
func pipeOrSocketPair(t *testing.T, kind string) (read, write *os.File) {
	t.Helper()
	var fds [2]int
	var err error
	if kind == "pipe" {
		err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	} else {
		fds, err = syscall.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	read, write = os.NewFile(uintptr(fds[0]), "read"), os.NewFile(uintptr(fds[1]), "write")
	t.Cleanup(func() { closeAll([]*os.File{read, write}) })
	return read, write
}

// TestStreamWaits checks that the end of the context ends a blocked read or write.
func TestStreamWaits(t *testing.T) {
	for _, kind := range []string{"pipe", "socket"} {
		read, write := pipeOrSocketPair(t, kind)
		ctx, cancel := context.WithCancel(context.Background())
		in, err := OpenStream(ctx, read, false)
		if err != nil {
			t.Fatal(err)
		}
		out, err := OpenStream(ctx, write, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte("passed")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 6)
		if _, err := io.ReadFull(in, got); err != nil || string(got) != "passed" {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
		ended := make(chan error, 2)
		go func() {
			_, err := in.Read(got)
			ended <- err
		}()
		_, other := pipeOrSocketPair(t, kind)
		full, err := OpenStream(ctx, other, true)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := full.Write(make([]byte, 16<<20)) // blocks: the other end is not read
			ended <- err
		}()
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v, want context.Canceled", kind, err)
			}
		}
		for _, stream := range []*Stream{in, out, full} {
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
		}
		if flags, err := unix.FcntlInt(read.Fd(), unix.F_GETFL, 0); kind == "pipe" &&
			(err != nil || flags&unix.O_NONBLOCK != 0) {
			t.Errorf("flags of the caller's pipe are %#x, %v", flags, err)
		}
	}
}

func TestStreamOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stream")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out, err := OpenStream(t.Context(), file, true)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789"), 1000)
	if _, err := out.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	read, write := pipeOrSocketPair(t, "pipe")
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, test := range []struct {
		file  *os.File
		write bool
	}{{read, true}, {write, false}, {dir, false}} {
		if stream, err := OpenStream(t.Context(), test.file, test.write); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%s, write %v: got %v, %v, want ErrInvalid", test.file.Name(), test.write, stream, err)
		}
	}
}
