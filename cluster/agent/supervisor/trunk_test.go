package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/supervisor/trunk"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// inTrunk lets the attempts of fixtures have a trunk.
var inTrunk bool

// trunkDir is where the program of trunks is: every user may execute it there. TestMain removes it.
var trunkDir string

// trunkProgram returns the program of trunks.
var trunkProgram = sync.OnceValues(func() (path string, err error) {
	if trunkDir, err = os.MkdirTemp("", "trunk"); err != nil {
		return "", err
	}
	if err := os.Chmod(trunkDir, 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(trunkDir, "linked")
	return path, (&trunk.Program{Path: filepath.Join(trunkDir, "program")}).Link(path)
})

// addTrunk gives an attempt a trunk, of the user of its first process.
func (f *fixture) addTrunk() {
	program, err := trunkProgram()
	if err != nil {
		f.Fatal(err)
	}
	first := f.spec.Processes[0]
	f.spec.Trunk = &Trunk{Process: Process{
		Command: []string{program, trunk.Role}, Environment: []string{f.mark}, Directory: "/",
		UID: first.UID, GID: first.GID, Groups: first.Groups,
	}}
}

// withTrunk lets the attempts of a test have a trunk.
func withTrunk(t *testing.T) {
	t.Helper()
	inTrunk = true
	t.Cleanup(func() { inTrunk = false })
}

// TestTrunk: for those who start and stop an attempt, a trunk makes no difference.
func TestTrunk(t *testing.T) {
	withTrunk(t)
	for name, test := range map[string]func(*testing.T){
		"Completed": TestCompleted, "Failure": TestFailure, "FailureIgnored": TestFailureIgnored,
		"Stop": TestStop, "StopContinues": TestStopContinues,
		"Kill": TestKill, "KillWhileStopping": TestKillWhileStopping, "Signal": TestSignal,
		"NothingLeft": TestNothingLeft, "Frozen": TestFrozen, "OutOfMemory": TestOutOfMemory, "User": TestUser,
		"Inheritance": TestInheritance, "Exec": TestExec, "ExecOrphaned": TestExecOrphaned,
		"SupervisorKilled": TestSupervisorKilled, "FenceExpires": TestFenceExpires,
	} {
		t.Run(name, test)
	}
}

// TestOneTree: all processes are children of the trunk, with sessions of their own, and so is what
// they leave behind.
func TestOneTree(t *testing.T) {
	withTrunk(t)
	f := newFixture(t, "echo ready; sleep 1000", "(setsid sleep 1001 &) ; echo ready; exec sleep 1002")
	f.start()
	f.says("0 out ready")
	f.says("1 out ready")
	status := f.started()
	for i, each := range status.Processes {
		if proc.Parent(each.PID) != status.Trunk.PID {
			t.Errorf("process %d is pid %d, whose parent is not the trunk, pid %d", i, each.PID, status.Trunk.PID)
		}
		if stat, err := proc.ReadStat(each.PID); err != nil || stat.Session != each.PID {
			t.Errorf("process %d, pid %d, is in session %d (%v)", i, each.PID, stat.Session, err)
		}
	}
	f.eventually("the trunk has what was left behind", func() bool {
		children, err := proc.Children(status.Trunk.PID)
		return err == nil && slices.ContainsFunc(children, func(pid int) bool {
			return strings.Contains(strings.Join((identity(t, pid)).Arguments(), " "), "sleep 1001")
		})
	})
	if err := f.Stop(f.patient(), 0); err != nil {
		t.Fatal(err)
	}
	f.end()
}

// identity returns a process, if it has not ended.
func identity(t *testing.T, pid int) proc.Identity {
	t.Helper()
	id, err := proc.Of(pid)
	if err != nil {
		t.Log(err)
	}
	return id
}

// TestTrunkCannotStart: the owner reads what to do, and the other processes end.
func TestTrunkCannotStart(t *testing.T) {
	withTrunk(t)
	f := newFixture(t, "while :; do sleep 1; done", "exit 0", "exit 0")
	open(t, f.root)
	if err := os.Mkdir(filepath.Join(f.root, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range f.spec.Processes {
		f.spec.Processes[i].UID, f.spec.Processes[i].GID = 54321, 54321
	}
	f.spec.Processes[1].Directory = filepath.Join(f.root, "private")
	f.start()
	status := f.end()
	exits := status.Exits()
	if status.Reason != Failed || len(exits) != 3 || !exits[0].Stopped || !exits[2].Stopped || exits[2].Error == "" {
		t.Fatalf("%+v", status)
	}
	if want := "user 54321 may not enter the directory"; !strings.Contains(exits[1].Error, want) {
		t.Errorf("it could not start: %s; want %s", exits[1].Error, want)
	}
}

// TestTrunkOfOthers: a trunk starts processes of its own user only.
func TestTrunkOfOthers(t *testing.T) {
	f := newFixture(t, "exit 0", "exit 0")
	f.addTrunk()
	f.spec.Processes[1].UID = 1
	if _, err := Start(t.Context(), f.root, f.spec); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "process 1") {
		t.Errorf("got %v", err)
	}
}

// TestTrunkKilled: processes do not outlive their trunk, and it is known how they have ended.
func TestTrunkKilled(t *testing.T) {
	withTrunk(t)
	f := newFixture(t, "exit 0", "echo ready; sleep 1000")
	f.start()
	f.says("1 out ready")
	status := f.started()
	f.eventually("process 0 has ended", func() bool {
		status, err := f.Status(f.patient())
		return err == nil && status.Processes[0].Exit != nil
	})
	if err := unix.Kill(status.Trunk.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Failed, succeeded, killed)
}

// TestTrunkStreams: a trunk has the streams of its processes by the numbers that a restored one
// has, and they have nothing of it.
func TestTrunkStreams(t *testing.T) {
	withTrunk(t)
	const list = "ls -l /proc/self/fd | grep -c pipe; echo ready; sleep 1000"
	f := newFixture(t, list, list, list)
	for i := range f.spec.Processes {
		f.spec.Processes[i].UID, f.spec.Processes[i].GID = 65534, 65534
	}
	open(t, f.root)
	f.start()
	for _, line := range []string{"0 out 2", "1 out 2", "2 out 2", "2 out ready"} { // error, and the pipe to grep
		f.says(line)
	}
	at := f.started().Trunk.PID
	for i, each := range f.started().Processes {
		out, complaints := trunk.Streams(i)
		for number, theirs := range map[int]int{out: 1, complaints: 2} {
			if a, b := link(t, at, number), link(t, each.PID, theirs); a != b || !strings.HasPrefix(a, "pipe:") {
				t.Errorf("descriptor %d of the trunk is %s, and %d of process %d is %s", number, a, theirs, i, b)
			}
		}
	}
	for _, number := range trunk.Kept(3) {
		if to := link(t, at, number); !strings.HasPrefix(to, "pipe:") {
			t.Errorf("descriptor %d of the trunk is %s", number, to)
		}
	}
	if err := f.Kill(f.patient()); err != nil {
		t.Fatal(err)
	}
	f.end()
}

// link returns what a descriptor of a process is.
func link(t *testing.T, pid, number int) string {
	t.Helper()
	to, err := os.Readlink(filepath.Clean(proc.File(pid, number)))
	if err != nil {
		t.Error(err)
	}
	return to
}

// TestRestoredTrunk: what stands for a trunk that it restores has no processes of its own, and
// tells what that trunk does, maybe with what had ended before. Its user may tell anything.
func TestRestoredTrunk(t *testing.T) {
	f := newFixture(t, "exit 99", "exit 99")
	f.addTrunk()
	f.spec.Trunk.Restores = true
	f.spec.Trunk.Command = []string{"sh", "-c", `
		echo junk >&3
		echo '{"processes":[{"status":2304}]}' >&3
		echo '{"processes":[{"status":127},{"pid":1,"status":127}]}' >&3
		echo '{"processes":[{"pid":1,"status":0},{"pid":1}],"started":true}' >&3
		echo restored; echo other >&5; exec sleep 1000`}
	f.spec.Trunk.Environment = f.spec.Processes[0].Environment
	f.start()
	f.says("0 out restored")
	f.says("1 out other")
	if got := f.started().State; got != Running {
		t.Errorf("it is %s", got)
	}
	f.eventually("the end of process 0 is known", func() bool {
		status, err := f.Status(f.patient())
		return err == nil && status.Processes[0].Exit != nil
	})
	if err := f.Signal(f.patient(), 1, unix.SIGTERM); !errors.Is(err, ErrProcess) {
		t.Errorf("a signal to a process that it has not: %v", err)
	}
	if err := f.Stop(f.patient(), harness.Patience); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Stopped, succeeded, terminated+", stopped")
}
