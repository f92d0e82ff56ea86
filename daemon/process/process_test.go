package process

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/lab/scarce"
)

func TestStartTicks(t *testing.T) {
	const after = " S 1 2 3 0 -1 4194560 5 6 7 8 9 10 11 12 20 0 1 0 424242 99 3"
	for _, name := range []string{"(cat)", "(a b) c)", "()", "(x (y))"} {
		got, err := startTicks([]byte("17 " + name + after))
		if err != nil || got != 424242 {
			t.Errorf("name %s: %d, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "17", "17 (cat) S 1", "17 cat S 1 2 3"} {
		if _, err := startTicks([]byte(bad)); err == nil {
			t.Errorf("%q gave no error", bad)
		}
	}
}

func TestHandleSeesTheEnd(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	handle, err := OpenPID(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if handle.Ended() {
		t.Fatal("ended before it was killed")
	}
	done := make(chan error, 1)
	go func() { done <- handle.Wait() }()
	if err := handle.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !handle.Ended() {
		t.Error("the handle does not see that it ended")
	}
	_ = child.Wait() // says only that it was killed
	if err := handle.Signal(unix.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("signal after the end: %v, want ErrGone", err)
	}
	if err := handle.Identity.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("check after the end: %v, want ErrGone", err)
	}
	if _, err := Open(handle.Identity); !errors.Is(err, ErrGone) {
		t.Errorf("open after the end: %v, want ErrGone", err)
	}
}

func TestCloseEndsWait(t *testing.T) {
	handle, err := OpenPID(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- handle.Wait() }()
	if err := handle.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("wait returned as if the process had ended")
	}
}

func TestAnotherProcessOfTheSamePid(t *testing.T) {
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.StartTicks++
	if _, err := Open(self); !errors.Is(err, ErrGone) {
		t.Errorf("open: %v, want ErrGone", err)
	}
}

func TestZombie(t *testing.T) {
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if _, zombie := self.Zombie(); zombie {
		t.Error("this process is taken for one that has ended")
	}
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Of(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if err := handle.Wait(); err != nil {
		t.Fatal(err)
	}
	if parent, zombie := id.Zombie(); !zombie || parent != self {
		t.Errorf("zombie %v of parent %v, want one of %v", zombie, parent, self)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, zombie := id.Zombie(); zombie {
		t.Error("a buried process is taken for a zombie")
	}
}

// TestActsOnlyAs: a process of another user is told from one of ours, and from one that can become ours again.
func TestActsOnlyAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has processes of others")
	}
	const user = 61239
	for name, test := range map[string]struct {
		command []string
		user    uint32
		only    bool
	}{
		"ours": {[]string{"sleep", "1000"}, 0, true}, "not ours": {[]string{"sleep", "1000"}, user, false},
		"a user's":                  {[]string{"setpriv", "--reuid", "61239", "sleep", "1000"}, user, true},
		"a user's who can be root":  {[]string{"setpriv", "--ruid", "61239", "sleep", "1000"}, user, false},
		"root who can be that user": {[]string{"setpriv", "--ruid", "61239", "sleep", "1000"}, 0, false},
	} {
		child := exec.Command(test.command[0], test.command[1:]...)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		id, err := Of(child.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for id.Name() != "sleep" { // it is still on its way there
			if err := id.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if only, err := id.ActsOnlyAs(test.user); err != nil || only != test.only {
			t.Errorf("%s: %v, %v", name, only, err)
		}
		_ = child.Process.Kill()
		_ = child.Wait()
	}
}

// TestUnknown: who cannot look does not say that a process is gone.
func TestUnknown(t *testing.T) {
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	scarce.Files(t, 0)
	if err := self.Check(); !errors.Is(err, unix.EMFILE) || errors.Is(err, ErrGone) || self.Gone() {
		t.Errorf("without descriptors it says %v, gone: %v", err, self.Gone())
	}
}
