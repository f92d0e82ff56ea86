package sockmux

import (
	"bufio"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// leave starts a process that listens at a socket, ends, and leaves the socket to a child for some
// seconds.
func leave(t *testing.T, socket, seconds string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	command := exec.Command("python3", "-c", `
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
if os.fork(): os._exit(0)
os.close(0); os.write(1, b"x\n"); os.close(1); time.sleep(float(sys.argv[2]))
`, socket, seconds)
	command.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	group := command.Process.Pid
	t.Cleanup(func() { _ = unix.Kill(-group, unix.SIGKILL) })
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestListenAfterKill: the socket of a phosd that was killed is open for a little while, if it was
// just starting a worker.
func TestListenAfterKill(t *testing.T) {
	place := Place{Path: filepath.Join(t.TempDir(), "phosd.sock"), GID: unix.Getgid(), Mode: 0o600}
	leave(t, place.Path, "0.3")
	first, err := Listen(place)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := Listen(place); !errors.Is(err, errSocketTaken) {
		t.Errorf("a socket at which this process listens: %v", err)
	}
}

// TestListenBesideAnother: a socket that stays open is not taken away.
func TestListenBesideAnother(t *testing.T) {
	place := Place{Path: filepath.Join(t.TempDir(), "phosd.sock"), GID: unix.Getgid(), Mode: 0o600}
	leave(t, place.Path, "1000")
	if _, err := Listen(place); !errors.Is(err, errSocketTaken) {
		t.Errorf("a socket that another process has: %v", err)
	}
}
