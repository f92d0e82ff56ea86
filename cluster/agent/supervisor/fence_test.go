package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// busy ignores SIGTERM.
const busy = "trap '' TERM; echo ready; while :; do :; done"

// TestFence: nothing is killed while the deadline is extended, and all when it is not.
func TestFence(t *testing.T) {
	f := newFixture(t, busy, "sleep 1000")
	f.spec.Deadline = boottime.Now() + time.Hour
	f.start()
	f.says("0 out ready")
	if err := f.Extend(f.patient(), boottime.Now()+200*time.Millisecond); err != nil { // only ever forward
		t.Fatal(err)
	}
	after := boottime.Now() + 400*time.Millisecond
	f.eventually("the time passes", func() bool { return boottime.Now() > after })
	if status := f.started(); status.State != Running {
		t.Fatalf("%+v", status)
	}
}

// TestFenceExpires: the end is told as what it was, comes without a grace, and not before the
// latest deadline.
func TestFenceExpires(t *testing.T) {
	f := newFixture(t, busy, "sleep 1000")
	f.spec.Grace = time.Hour
	var last time.Duration
	f.startToBeFenced(func() (inTime bool) {
		last = f.spec.Deadline + 200*time.Millisecond
		for _, until := range []time.Duration{last - 1, last, 1} {
			if err := f.Extend(f.patient(), until); errors.Is(err, ErrFenced) || errors.Is(err, ErrEnded) {
				return false
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	status := f.end()
	late := (boottime.Now() - last)
	f.expect(status, Fenced, killed+", stopped", killed+", stopped")
	if late < 0 {
		t.Errorf("ended %v before the deadline", -late)
	}
	t.Logf("the end was known %v after the deadline", late)
	if err := f.Extend(f.patient(), boottime.Now()+time.Hour); !errors.Is(err, ErrEnded) {
		t.Errorf("extended after the end: %v", err)
	}
}

// startToBeFenced starts the attempt with a deadline that is near, and lets the test do what it
// must do before. If the deadline has passed meanwhile, the next attempt has more time.
func (f *fixture) startToBeFenced(do func() (inTime bool)) {
	f.Helper()
	for within := 300 * time.Millisecond; ; within *= 2 {
		f.spec.Deadline = boottime.Now() + within
		f.start()
		if f.started().State == Running && do() {
			return
		}
		f.end()
		f.spec.Key.Attempt++
	}
}

// TestFencePassed: an attempt whose deadline has passed before does not begin.
func TestFencePassed(t *testing.T) {
	f := newFixture(t, "echo began", "echo began")
	f.spec.Deadline = boottime.Now() - 1
	f.start()
	status := f.end()
	if status.Reason != Fenced || len(status.Exits()) != 2 {
		t.Errorf("%+v", status)
	}
	for _, each := range status.Exits() {
		if !each.Stopped || each.OK() {
			t.Errorf("%+v", each)
		}
	}
}

// TestNoFence: an attempt without a deadline stays without one.
func TestNoFence(t *testing.T) {
	f := newFixture(t, "echo ready; sleep 1000")
	f.start()
	f.says("0 out ready")
	if err := f.Extend(f.patient(), 1); err != nil {
		t.Error(err)
	}
	if status := f.started(); status.State != Running {
		t.Errorf("%+v", status)
	}
}

// TestFenceRefuses: a deadline that has passed cannot be extended, however late the timer is.
func TestFenceRefuses(t *testing.T) {
	f, err := newFence(boottime.Now()+time.Millisecond, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for f.extend(boottime.Now()+-time.Hour) == nil { // changes nothing
		time.Sleep(time.Millisecond)
	}
	if err := f.extend(boottime.Now() + time.Hour); !errors.Is(err, ErrFenced) {
		t.Errorf("extended: %v", err)
	}
	expired := make(chan error, 1)
	go f.watch(func(err error) { expired <- err })
	if err := <-expired; err != nil {
		t.Error(err)
	}
}

// TestHostStoodStill: supervisor and processes stand still past the deadline, all at once, while
// others want all CPUs. When they go on, the processes are killed; the test tells how soon.
func TestHostStoodStill(t *testing.T) {
	for name, stop := range map[string]func(f *fixture) (wake func()){
		"frozen": func(f *fixture) func() {
			top := filepath.Dir(f.group())
			f.freeze(top, "1")
			return func() { _ = cgroup.Write(top, "cgroup.freeze", "0") }
		},
		"stopped": func(f *fixture) func() {
			pids := append(f.marked(), f.started().Supervisor.PID)
			for _, pid := range pids {
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
			return func() {
				for _, pid := range pids {
					_ = unix.Kill(pid, unix.SIGCONT)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, busy)
			f.spec.CgroupParent = fmt.Sprintf("%s-still", parentCgroup)
			t.Cleanup(func() { removeParent(f.spec.CgroupParent) })
			f.spec.Processes = append(f.spec.Processes, f.process("sh", "-c",
				"for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (while :; do :; done) & done; while :; do :; done"))
			var wake func()
			f.startToBeFenced(func() (inTime bool) {
				supervisor := f.started().Supervisor
				f.eventually("the supervisor has moved", func() bool {
					place, err := cgroup.Of(supervisor.PID)
					return err != nil || filepath.Base(place) == placeName
				})
				wake = stop(f)
				if inTime = len(f.marked()) > 0; !inTime {
					wake()
				}
				return inTime
			})
			f.eventually("the deadline passes", func() bool { return boottime.Now() > f.spec.Deadline })
			woken := boottime.Now()
			wake()
			f.expect(f.end(), Fenced, killed+", stopped", killed+", stopped")
			t.Logf("the end was known %v after the host went on", (boottime.Now() - woken))
		})
	}
}

// TestKilledPlace: supervisors start processes although their cgroup was killed once. Linux 6.14
// and later kill what is started from such a cgroup.
func TestKilledPlace(t *testing.T) {
	f := newFixture(t, "echo alive")
	killPlace(t)
	f.start()
	f.expect(f.end(), Completed, succeeded)
}

// TestExecKilledPlace: the same for commands, which supervisors start from their own cgroup.
func TestExecKilledPlace(t *testing.T) {
	f := newFixture(t, "echo ready; exec sleep 1000")
	killPlace(t)
	f.start()
	f.says("0 out ready")
	f.started()
	for range 3 {
		if got := f.said("echo alive"); got != "alive\n" {
			t.Fatalf("the command says %q", got)
		}
	}
}

// killPlace kills the cgroup of supervisors, in which none is.
func killPlace(t *testing.T) {
	t.Helper()
	top, err := cgroup.Top()
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(top, parentCgroup, placeName)
	if err := os.MkdirAll(place, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.Write(place, "cgroup.kill", "1"); errors.Is(err, os.ErrNotExist) {
		t.Skip("needs Linux 5.14")
	} else if err != nil {
		t.Fatal(err)
	}
}

// TestBrokenAgentCgroup: the same, if the agent's cgroup was killed once.
func TestBrokenAgentCgroup(t *testing.T) {
	f := newFixture(t, "echo alive")
	top, err := cgroup.Top()
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(top, parentCgroup+"-agent")
	if err := os.MkdirAll(place, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(place) })
	if err := cgroup.Write(place, "cgroup.kill", "1"); err != nil {
		t.Skip(err)
	}
	agent := exec.Command("sh", "-c", `echo 0 > "$1/cgroup.procs" && exec "$2" agent "$3"`, "sh", place, itself(t), f.root)
	agent.Stdin = strings.NewReader(f.specJSON())
	out, err := agent.StdoutPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if f.Attempt, _, err = Adopt(f.patient(), f.root, f.spec.Key); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Completed, succeeded)
}
