package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// listen returns a listener, and the path of its socket.
func listen(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener, path
}

func TestOf(t *testing.T) {
	listener, path := listen(t)
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	got, err := Of(server)
	if err != nil {
		t.Fatal(err)
	}
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got.Process != self || int(got.UID) != os.Getuid() || int(got.GID) != os.Getgid() {
		t.Errorf("got %+v, want this process, %+v", got, self)
	}
}

// TestEndedPeer: the process that connected has ended and left its socket to a child, which still
// holds the connection open.
func TestEndedPeer(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	listener, path := listen(t)
	command := exec.Command("python3", "-c", `
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
if os.fork(): os._exit(0)
s.send(b"x"); time.sleep(1000)
`, path)
	command.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	pid := command.Process.Pid
	defer func() { _ = unix.Kill(-pid, unix.SIGKILL) }()
	server, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"a zombie", "reaped"} {
		if state == "reaped" {
			if err := command.Wait(); err != nil {
				t.Fatal(err)
			}
		} else {
			awaitZombie(t, pid)
		}
		if got, err := Of(server); !errors.Is(err, proc.ErrGone) {
			t.Errorf("%s peer: %+v, %v, want ErrGone", state, got, err)
		}
	}
}

func awaitZombie(t *testing.T, pid int) {
	t.Helper()
	handle, err := proc.OpenPID(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if err := handle.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestIdentifyByUser is what kernels before 6.5 get.
func TestIdentifyByUser(t *testing.T) {
	self := os.Getpid()
	if got, err := identifyByUser(self, uint32(os.Getuid())); err != nil || got.PID != self {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := identifyByUser(self, uint32(os.Getuid())+1); !errors.Is(err, proc.ErrGone) {
		t.Errorf("a process of another user: %+v, %v, want ErrGone", got, err)
	}
	if got, err := identifyByUser(1<<22+1, 0); !errors.Is(err, proc.ErrGone) {
		t.Errorf("no process: %+v, %v, want ErrGone", got, err)
	}
}
