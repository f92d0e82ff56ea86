package orphans

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// leave starts a session leader that starts a sleeping process, kills the leader, and returns both.
func leave(t *testing.T) (leader, left proc.Identity) {
	t.Helper()
	command := exec.Command("sh", "-c", `sleep 1000 & kill -STOP $!; echo $!; wait`)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	leader, err = proc.Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if left, err = proc.Of(pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end(left) })
	_ = command.Process.Kill()
	_ = command.Wait()
	return leader, left
}

// ended reports whether a process has ended; a zombie counts.
func ended(id proc.Identity) bool {
	stat, err := proc.ReadStat(id.PID)
	return err != nil || stat.Identity != id || stat.Zombie()
}

func TestEndSession(t *testing.T) {
	leader, left := leave(t)
	_, other := leave(t)
	if err := EndSession(leader); err != nil {
		t.Fatal(err)
	}
	if !ended(left) {
		t.Error("process has not ended")
	}
	if ended(other) {
		t.Error("process of another session has ended")
	}
}

// TestEndSessionReusedPID: the leader's pid may have been reused.
func TestEndSessionReusedPID(t *testing.T) {
	leader, left := leave(t)
	leader.StartTicks += 100_000_000
	if err := EndSession(leader); err != nil {
		t.Fatal(err)
	}
	if ended(left) {
		t.Error("process older than the leader has ended")
	}
}

// TestLetEnd: a process that ends when it is asked ends by itself, and one that does not is not
// waited for without limit.
func TestLetEnd(t *testing.T) {
	leader, left := leave(t)
	if err := LetEnd(leader, time.Millisecond, func(int) {}); err != nil || ended(left) {
		t.Errorf("a process that stays: %v, ended %v", err, ended(left))
	}
	asked := 0
	err := LetEnd(leader, time.Minute, func(pid int) {
		asked = pid
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	if err != nil || asked != left.PID || !ended(left) {
		t.Errorf("asked %d, want %d: %v, ended %v", asked, left.PID, err, ended(left))
	}
}
