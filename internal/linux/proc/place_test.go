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
	if self.KnownTo(first) != 0 || child.KnownTo(self) != child.PID || !first.Elsewhere("pid") ||
		self.Elsewhere("pid", "mnt") {
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
