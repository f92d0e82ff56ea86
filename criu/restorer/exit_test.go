package restorer

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestSignal checks that signals reach the root, and no other process: neither one that got the
// root's pid, nor a root that has become another user.
func TestSignal(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	root, err := proc.Of(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{root: root}
	s.order.User.UID = uint32(os.Getuid())
	s.root.StartTicks++ // the root has ended, and the child got its pid
	if got := s.signal(unix.SIGKILL); !errors.Is(got, proc.ErrGone) {
		t.Errorf("ended root: got %v, want ErrGone", got)
	}
	s.root = root
	s.order.User.UID = uint32(os.Getuid()) + 1
	if got := s.signal(unix.SIGKILL); got == nil {
		t.Error("root of another user: got no error")
	}
	if err := child.Process.Signal(unix.Signal(0)); err != nil {
		t.Fatalf("the child got a signal: %v", err)
	}
	s.order.User.UID = uint32(os.Getuid())
	if got := s.signal(unix.SIGTERM); got != nil {
		t.Errorf("got %v, want no error", got)
	}
	if _, err := child.Process.Wait(); err != nil {
		t.Error(err)
	}
}

// TestExitStatusOnce checks that a second process with the root's pid does not replace its status.
func TestExitStatusOnce(t *testing.T) {
	e := newExitStatus()
	e.set(7 << 8)
	e.set(9)
	if got := e.get(); got != 7<<8 {
		t.Errorf("got status %#x, want 0x700", got)
	}
}
