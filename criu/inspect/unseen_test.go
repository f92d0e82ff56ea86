package inspect

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"

	"github.com/phos-gpu/phos/tests/harness/scarce"
)

// child starts a sleeping process with a pipe whose other end is closed, and a named socket.
func child(t *testing.T) proc.Identity {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "socket")})
	if err != nil {
		t.Fatal(err)
	}
	socket, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sleep", "1000")
	command.ExtraFiles = []*os.File{reader, socket}
	err = command.Start()
	if err := errors.Join(err, reader.Close(), writer.Close(), socket.Close(), listener.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	id, err := proc.Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for id.Name() != "sleep" { // exec has not happened yet
		if err := id.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if err := command.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for { // until it sleeps
		stat, err := proc.ReadStat(id.PID)
		if err != nil {
			t.Fatal(err)
		}
		if stat.State == 'T' {
			return id
		}
	}
}

// TestFewFiles: with too few file descriptors an inspection returns complete findings or an error.
// It never reports that the program has ended.
func TestFewFiles(t *testing.T) {
	root := child(t)
	want, err := Inspect(t.Context(), root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(want.SocketDirs) != 1 {
		t.Fatalf("unexpected findings %+v", want)
	}
	const plenty = 20
	failed := 0
	for more := range plenty {
		enough := scarce.Files(t, more)
		got, err := Inspect(t.Context(), root, Options{})
		enough()
		switch {
		case err == nil && !reflect.DeepEqual(got, want):
			t.Errorf("with %d more files: got\n%+v, want\n%+v", more, got, want)
		case err == nil:
		case !proc.Unknown(err) || errors.Is(err, proc.ErrGone):
			t.Errorf("with %d more files: %v", more, err)
		default:
			failed++
		}
	}
	if failed == 0 || failed == plenty {
		t.Errorf("got %d failures", failed)
	}
}
