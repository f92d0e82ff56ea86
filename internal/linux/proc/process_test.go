package proc

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness/scarce"
)

func TestStatLine(t *testing.T) {
	const after = " S 1 2 3 0 -1 4194560 5 6 7 8 9 10 11 12 20 0 1 0 424242 99 3"
	for _, name := range []string{"(cat)", "(a b) c)", "()", "(x (y))"} {
		got, err := parseStat([]byte("17 " + name + after))
		if err != nil || got.StartTicks != 424242 || got.Parent != 1 || got.State != 'S' {
			t.Errorf("name %s: %+v, %v", name, got, err)
		}
	}
	for _, bad := range []string{
		"", "17", "17 (cat) S 1", "17 cat S 1 2 3",
		"17 (cat)" + strings.Replace(after, "424242", "x", 1),
	} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// TestStatusLines: a status without ids is an error, never a root process.
func TestStatusLines(t *testing.T) {
	const whole = "Name:\tcat\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n"
	status, err := parseStatus(whole + "NSpid:\t700\t7\n")
	if err != nil || status.UIDs != [4]uint32{1, 2, 3, 4} || len(status.Groups) != 2 || status.InnermostPID() != 7 {
		t.Errorf("%+v, %v", status, err)
	}
	if status, err := parseStatus(strings.Replace(whole, "9 10 ", "", 1)); err != nil || len(status.Groups) != 0 {
		t.Errorf("no supplementary groups: %+v, %v", status, err)
	}
	for _, bad := range []string{
		"", "Name:\tcat\n", strings.Replace(whole, "\t4\n", "\n", 1),
		strings.Replace(whole, "10", "-1", 1),
	} {
		if status, err := parseStatus(bad); err == nil {
			t.Errorf("%q became %+v", bad, status)
		}
	}
}

func TestHandleEnded(t *testing.T) {
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
		t.Error("Ended is false after the end")
	}
	_ = child.Wait() // only reports the kill
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
		t.Error("Wait returned without an error")
	}
}

func TestOpenReusedPID(t *testing.T) {
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
		t.Error("this process is reported as a zombie")
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
		t.Error("a reaped process is reported as a zombie")
	}
}

// TestActsOnlyAs distinguishes processes of another user, of this user, and those that can become
// this user again.
func TestActsOnlyAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: starts processes of other users")
	}
	const user = 61239
	for name, test := range map[string]struct {
		command []string
		user    uint32
		only    bool
	}{
		"this user": {[]string{"sleep", "1000"}, 0, true}, "other user": {[]string{"sleep", "1000"}, user, false},
		"that user":                  {[]string{"setpriv", "--reuid", "61239", "sleep", "1000"}, user, true},
		"that user, may become root": {[]string{"setpriv", "--ruid", "61239", "sleep", "1000"}, user, false},
		"root, may become that user": {[]string{"setpriv", "--ruid", "61239", "sleep", "1000"}, 0, false},
	} {
		child := exec.Command(test.command[0], test.command[1:]...)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		id, err := Of(child.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for id.Name() != "sleep" { // exec has not happened yet
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

// TestUnknown: without file descriptors a process is not reported as ended.
func TestUnknown(t *testing.T) {
	self, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	scarce.Files(t, 0)
	if err := self.Check(); !errors.Is(err, unix.EMFILE) || errors.Is(err, ErrGone) || self.Gone() {
		t.Errorf("without descriptors: %v, gone: %v", err, self.Gone())
	}
}
