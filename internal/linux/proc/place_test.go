package proc

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestHasRoot(t *testing.T) {
	const below = "67 66 0:43 / /proc rw,relatime - proc proc rw\n"
	for mountinfo, want := range map[string]bool{
		"": false, below: false, below + "25 1 8:1 /image / rw shared:1 - ext4 /dev/sda1 rw\n": true, "1 2\n": false,
	} {
		if got := hasRoot(mountinfo); got != want {
			t.Errorf("%q: got %v", mountinfo, got)
		}
	}
}

// TestSeen resolves pids of a container, and of a nested one, as a process in the first sees them.
func TestSeen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	// The shell is pid 1 of the outer namespace. Its children print their own pids; the last one
	// has its own namespace.
	command := exec.Command("sh", "-c", `sleep 1000 & echo $!; exec unshare --pid --fork sleep 1000`)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Skip("no pid namespaces: ", err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	inner, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	first, err := Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	child, err := first.Seen(inner)
	if err != nil {
		t.Fatal(err)
	}
	if child.PID == inner || child.Innermost() != inner || child.KnownTo(first) != inner ||
		child.Name() != "sleep" && child.Name() != "sh" {
		t.Errorf("pid %d is %v (%s)", inner, child, child.Name())
	}
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[Identity]bool{first: true, self: false} {
		if got, err := id.Elsewhere("pid", "mnt"); err != nil || got != want {
			t.Errorf("%v is elsewhere: %v, %v, want %v", id, got, err, want)
		}
	}
	if self.KnownTo(first) != 0 || child.KnownTo(self) != child.PID {
		t.Errorf(
			"from the container this process is %d; from here %v is %d",
			self.KnownTo(first),
			child,
			child.KnownTo(self),
		)
	}
	if found, err := first.Seen(1 << 22); !errors.Is(err, ErrGone) {
		t.Errorf("unused pid: %v, %v", found, err)
	}
}

// TestElsewhereOfDead: a zombie is in no namespace, and so is not in this process's.
func TestElsewhereOfDead(t *testing.T) {
	command := exec.Command("true")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	handle, err := OpenPID(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if err := handle.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"zombie", "reaped"} {
		if got, err := handle.Elsewhere("pid", "mnt"); !errors.Is(err, ErrGone) {
			t.Errorf("%s: elsewhere %v, %v, want ErrGone", state, got, err)
		}
		_ = command.Wait()
	}
}
