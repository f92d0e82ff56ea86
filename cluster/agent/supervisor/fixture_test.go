package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/supervisor/trunk"
	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// parentCgroup is where the attempts of this run of the tests are.
var parentCgroup = fmt.Sprintf("phos-test-%d", os.Getpid())

// TestMain is also the main function of supervisors, of agents that are killed, and of processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Role {
		os.Exit(Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == trunk.Role {
		os.Exit(trunk.Main())
	}
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		roles[os.Args[1]](os.Args[2:])
		os.Exit(0)
	}
	status := m.Run()
	removeParent(parentCgroup)
	_ = os.RemoveAll(trunkDir)
	os.Exit(status)
}

// roles are what this program does in tests.
var roles = map[string]func(arguments []string){"agent": agentRole, "eat": eatRole}

// tops lists the topmost cgroups of all hierarchies that are used.
func tops() (found []string) {
	if top, err := cgroup.Top(); err == nil {
		found = append(found, top)
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if top, err := cgroup.Legacy(controller); err == nil {
			found = append(found, top)
		}
	}
	return found
}

// fixture is one attempt in a test.
type fixture struct {
	*testing.T
	root string
	// mark is in the environment of each process of the attempt, and of no other.
	mark string
	spec Spec
	*Attempt
}

// itself returns the path of this program.
func itself(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newFixture returns an attempt of shell scripts that is not started.
func newFixture(t *testing.T, scripts ...string) *fixture {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	if _, err := cgroup.Top(); err != nil {
		harness.Need(t, "cgroups", err)
	}
	f := &fixture{T: t, root: t.TempDir(), mark: fmt.Sprintf("PHOS_MARK=%s.%d", t.Name(), os.Getpid())}
	f.spec = Spec{Key: Key{"test", 0, 1}, Grace: harness.Patience, CgroupParent: parentCgroup}
	for _, each := range scripts {
		f.spec.Processes = append(f.spec.Processes, f.process("sh", "-c", each))
	}
	return f
}

// process returns a process of root.
func (f *fixture) process(command ...string) Process {
	return Process{
		Command: command, Directory: f.root,
		Environment: []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HERE=" + f.root, f.mark},
	}
}

// start starts the attempt.
func (f *fixture) start() {
	f.Helper()
	if inTrunk {
		f.addTrunk()
	}
	var err error
	if f.Attempt, err = Start(f.Context(), f.root, f.spec); err != nil {
		f.Fatal(err)
	}
	f.finishLater()
}

// finishLater ends what the test leaves of the attempt.
func (f *fixture) finishLater() {
	attempt := f.Attempt
	f.Cleanup(func() { f.finish(attempt) })
}

func (f *fixture) finish(attempt *Attempt) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	err := attempt.Kill(ctx)
	var status Status
	if err == nil {
		status, err = attempt.Wait(ctx)
	}
	if err == nil {
		err = attempt.Remove(ctx)
	}
	if err != nil {
		f.Error(err)
	}
	f.eventually("the supervisor exits", status.Supervisor.Gone)
}

// patient returns a context that is long enough for what must happen.
func (f *fixture) patient() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), harness.Patience)
	f.Cleanup(cancel)
	return ctx
}

// end waits for the end, and checks the independent truth: no process has the mark, and there is no
// cgroup.
func (f *fixture) end() Status {
	f.Helper()
	status, err := f.Wait(f.patient())
	if err != nil {
		f.Fatal(err)
	}
	if left := f.marked(); len(left) > 0 {
		f.Errorf("processes are left after the end: %v", left)
	}
	for _, top := range tops() {
		if _, err := os.Stat(filepath.Join(top, status.Cgroup)); !errors.Is(err, os.ErrNotExist) {
			f.Errorf("the cgroup below %s: %v", top, err)
		}
	}
	return status
}

// marked lists the processes of the attempt, by their environment.
func (f *fixture) marked() (found []int) {
	f.Helper()
	pids, err := proc.All()
	if err != nil {
		f.Fatal(err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(append(text, 0), []byte(f.mark+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}

// eventually waits until a condition holds.
func (f *fixture) eventually(what string, holds func() bool) {
	f.Helper()
	for start := time.Now(); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > harness.Patience {
			lines := f.printed()
			f.Fatalf("not in time: %s; log: %q", what, lines[max(0, len(lines)-10):])
		}
	}
}

// printed returns what the processes have printed so far, as PROCESS STREAM TEXT.
func (f *fixture) printed() (lines []string) {
	f.Helper()
	if f.Attempt == nil {
		return nil
	}
	r := f.Log(linelog.Position{})
	defer r.Close()
	for {
		e, err := r.Next()
		if err != nil {
			return lines
		}
		lines = append(lines, fmt.Sprintf("%d %s %s", e.Process, e.Stream, e.Text))
	}
}

// says waits until a process has printed a line.
func (f *fixture) says(line string) {
	f.Helper()
	f.eventually("the line "+line, func() bool {
		for _, each := range f.printed() {
			if each == line {
				return true
			}
		}
		return false
	})
}

// group returns the directory of the attempt's cgroup of version 2.
func (f *fixture) group() string {
	f.Helper()
	status, err := f.Status(f.patient())
	if err != nil {
		f.Fatal(err)
	}
	top, err := cgroup.Top()
	if err != nil {
		f.Fatal(err)
	}
	return filepath.Join(top, status.Cgroup)
}

// pidIn reads a pid from a file that a script writes.
func (f *fixture) pidIn(name string) (pid int) {
	f.Helper()
	f.eventually(name, func() bool {
		text, err := os.ReadFile(filepath.Join(f.root, name))
		if err == nil && strings.HasSuffix(string(text), "\n") {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil && pid > 0
	})
	return pid
}

// freeze freezes or thaws a cgroup, and waits until it is.
func (f *fixture) freeze(group, value string) {
	f.Helper()
	if err := cgroup.Write(group, "cgroup.freeze", value); err != nil {
		f.Fatal(err)
	}
	events, err := os.Open(filepath.Join(group, "cgroup.events"))
	if err != nil {
		f.Fatal(err)
	}
	defer events.Close()
	f.eventually("frozen "+value, func() bool {
		frozen, err := cgroup.Event(events, "frozen")
		return err != nil || frozen == (value == "1")
	})
}

// expect compares reasons and exits.
func (f *fixture) expect(status Status, reason Reason, exits ...string) {
	f.Helper()
	var got []string
	for _, each := range status.Exits() {
		text := each.String()
		if each.Stopped {
			text += ", stopped"
		}
		got = append(got, text)
	}
	if status.State != Ended || status.Reason != reason || fmt.Sprint(got) != fmt.Sprint(exits) {
		f.Errorf("%s, %s (%s), exits %q; want %s, %q", status.State, status.Reason, status.Detail, got, reason, exits)
	}
}

// started waits until all processes are started.
func (f *fixture) started() Status {
	f.Helper()
	status, err := f.Started(f.patient())
	if err != nil {
		f.Fatal(err)
	}
	return status
}

const (
	killed     = "was ended by signal 9"
	terminated = "was ended by signal 15"
	succeeded  = "ended with status 0"
)

// logEnd returns the Position after all that was printed.
func (f *fixture) logEnd() linelog.Position {
	r := f.Log(linelog.Position{})
	defer r.Close()
	for {
		if _, err := r.Next(); err != nil {
			return r.Position()
		}
	}
}

// removeParent removes a cgroup for attempts in all hierarchies. With an attempt in it, it stays.
func removeParent(name string) {
	for _, top := range tops() {
		_ = os.Remove(filepath.Join(top, name, placeName))
		_ = os.Remove(filepath.Join(top, name))
	}
}

// specJSON returns the Spec for another agent.
func (f *fixture) specJSON() string {
	f.Helper()
	text, err := json.Marshal(f.spec)
	if err != nil {
		f.Fatal(err)
	}
	return string(text)
}
