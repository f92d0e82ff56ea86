package sessions

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// sleeper starts a process that sleeps until the test ends or stop is called.
func sleeper(t *testing.T, groups ...uint32) (id proc.Identity, stop func()) {
	t.Helper()
	command := exec.Command("sleep", "1000")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61251, Gid: 61251, Groups: groups}}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
	t.Cleanup(stop)
	id, err := proc.Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id, stop
}

// recycle ends a process and starts another one with its pid.
func recycle(t *testing.T, old proc.Identity, stop func()) proc.Identity {
	t.Helper()
	stop()
	for range 1000 {
		last := []byte(fmt.Sprint(old.PID - 1))
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", last, 0); err != nil {
			t.Skipf("the kernel gives no chosen pid: %v", err)
		}
		next, end := sleeper(t)
		if next.PID == old.PID && next.StartTicks != old.StartTicks {
			return next
		}
		end() // another process was faster, or less than a tick has passed
	}
	t.Skipf("pid %d was never given again", old.PID)
	return proc.Identity{}
}

// TestRecycledPID: a caller names its program, the program ends, and another user's program gets
// the pid. The request does not reach that program.
func TestRecycledPID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: chooses a pid")
	}
	m := &Sessions{registry: newRegistry(10, nil)}
	caller := api.Caller{UID: 61251, Process: self(t)}
	named, stop := sleeper(t)
	root, err := caller.HostProcess(uint32(named.PID))
	if err != nil || root != named {
		t.Fatalf("pid %d: %v, %v", named.PID, root, err)
	}
	// The session of the process that gets the pid belongs to another user.
	s := newSession(nil, rundir.Record{Session: 1, Owner: rundir.Owner{UID: 61252}}, slot{})
	s.record.Program = recycle(t, named, stop)
	m.registry.add(s)
	if found := m.Below([]proc.Identity{root}); len(found) != 0 {
		t.Errorf("a request for the program that has ended reaches %v", found[0].record.Program)
	}
	if _, err := m.BelowFor(caller, root); !errors.Is(err, api.ErrNoProgram) {
		t.Errorf("got %v, want ErrNoProgram", err)
	}
	if found := m.Below([]proc.Identity{s.record.Program}); !slices.Equal(found, []*Session{s}) {
		t.Errorf("the program itself: %v", found)
	}
}

// TestGroupsOfTheConnection: a session has the groups that its program had when it connected,
// whatever the process has become since.
func TestGroupsOfTheConnection(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: gives a process groups")
	}
	id, _ := sleeper(t, 61299)
	program, err := proc.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, test := range []struct{ recorded, want []uint32 }{
		{known(nil), []uint32{}},
		{[]uint32{7}, []uint32{7}},
		{nil, []uint32{61299}}, // of an older version
	} {
		s := newSession(nil, rundir.Record{Groups: test.recorded}, slot{})
		s.program = program
		if as, err := s.Rights(); err != nil || !slices.Equal(as.Groups, test.want) {
			t.Errorf("recorded %v: groups %v, %v, want %v", test.recorded, as.Groups, err, test.want)
		}
	}
}

func self(t *testing.T) proc.Identity {
	t.Helper()
	id, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return id
}
