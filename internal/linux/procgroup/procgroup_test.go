package procgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// parent is where the groups of this run of the tests are.
var parent = fmt.Sprintf("phos-test-group-%d", os.Getpid())

func TestMain(m *testing.M) {
	status := m.Run()
	if top, err := cgroup.Top(); err == nil {
		_ = os.Remove(filepath.Join(top, parent))
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if top, err := cgroup.Legacy(controller); err == nil {
			_ = os.Remove(filepath.Join(top, parent))
		}
	}
	os.Exit(status)
}

// create makes a group that ends with the test.
func create(t *testing.T, limits Limits) *Group {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	g, err := Create(filepath.Join(parent, strings.ReplaceAll(t.Name(), "/", "-")), limits)
	if err != nil {
		harness.Need(t, "cgroups", err)
	}
	t.Cleanup(func() {
		ctx := patient(t)
		if err := errors.Join(g.KillAll(ctx), g.Remove(ctx), g.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	t.Cleanup(cancel)
	return ctx
}

// run starts a script in a group, and waits until it says ready.
func run(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	command := exec.Command("sh", "-c", script)
	command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 6)); n != 6 {
		t.Fatal(err)
	}
	return command
}

// TestKill: what is in a group ends, whatever it does; in both ways to kill.
func TestKill(t *testing.T) {
	for _, script := range []string{
		"trap '' TERM; echo ready; while :; do sleep 1000; done",
		"echo ready; kill -STOP $$",
		"setsid sleep 1000 > /dev/null & echo ready; sleep 1000",
		"next() { (next &) ; }; echo ready; next > /dev/null 2>&1; sleep 1000",
	} {
		for _, old := range []bool{false, true} {
			g := create(t, Limits{Pids: 300})
			if old {
				_ = g.kill.Close()
				g.kill = nil
			}
			command := run(t, g, script)
			if err := g.KillAll(patient(t)); err != nil {
				t.Fatal(err)
			}
			var status *exec.ExitError
			if err := command.Wait(); !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
				t.Errorf("old way %v, %q: %v", old, script, err)
			}
			if pids, err := g.Processes(); err != nil || len(pids) > 0 {
				t.Errorf("left %v, %v", pids, err)
			}
			if err := errors.Join(g.Remove(patient(t)), g.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(filepath.Join(parent, t.Name())); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("opened after it was removed: %v", err)
			}
			g.self, g.kill, g.events = nil, nil, nil
		}
	}
}

// TestOpen: another process can do the same with a group, knowing only its path.
func TestOpen(t *testing.T) {
	g := create(t, Limits{Pids: 300})
	command := run(t, g, "trap '' TERM; echo ready; while :; do sleep 1000; done")
	other, err := Open(filepath.Join(parent, t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Await(expired()); !errors.Is(err, ErrNotEmpty) || !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v", err)
	}
	if err := errors.Join(other.KillAll(patient(t)), other.Remove(patient(t))); err != nil {
		t.Error(err)
	}
	_ = command.Wait()
	if err := g.KillAll(patient(t)); err != nil {
		t.Errorf("kill after another process has removed it: %v", err)
	}
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestSignal: each process gets it, also in cgroups below.
func TestSignal(t *testing.T) {
	g := create(t, Limits{})
	command := run(t, g, "sleep 1000 & sleep 1001 & trap 'wait; exit 7' USR1; trap '' USR2; echo ready; while :; do sleep 0.01; done")
	below := filepath.Join(g.Directory, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	pids, err := g.Processes()
	if err != nil || len(pids) < 3 {
		t.Fatalf("%v, %v", pids, err)
	}
	for _, pid := range pids {
		if pid != command.Process.Pid {
			_ = cgroup.Put(below, pid) // the shortest sleep may have ended
		}
	}
	if err := g.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := g.Await(patient(t)); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if command.ProcessState.ExitCode() != 7 {
		t.Errorf("%v", command.ProcessState)
	}
}

// TestLimitsAreSet reads back what the kernel has.
func TestLimitsAreSet(t *testing.T) {
	for _, test := range []struct {
		limits Limits
		// files have the value in version 2 and in version 1.
		controller, file, value, legacyFile, legacyValue string
	}{
		{Limits{CPUs: 1500}, "cpu", "cpu.max", "150000 100000", "cpu.cfs_quota_us", "150000"},
		{Limits{CPUs: 1}, "cpu", "cpu.max", "1000 1000000", "cpu.cfs_quota_us", "1000"},
		{Limits{MemoryBytes: 64 << 20}, "memory", "memory.max", "67108864", "memory.limit_in_bytes", "67108864"},
		{Limits{Pids: 12}, "pids", "pids.max", "12", "pids.max", "12"},
	} {
		g, err := Create(filepath.Join(parent, t.Name()), test.limits)
		if errors.Is(err, cgroup.ErrNoController) || err != nil && os.Geteuid() != 0 {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		path, want := filepath.Join(g.Directory, test.file), test.value
		if legacy := g.legacy[test.controller]; legacy != "" {
			path, want = filepath.Join(legacy, test.legacyFile), test.legacyValue
		}
		text, err := os.ReadFile(path)
		if got := strings.TrimSpace(string(text)); err != nil || got != want {
			t.Errorf("%+v: %q, %v, want %q", test.limits, got, err, want)
		}
		if err := errors.Join(g.Remove(patient(t)), g.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestLimitRefused: the error says which limit it was, and nothing is left.
func TestLimitRefused(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	path := filepath.Join(parent, t.Name())
	_, err := Create(path, Limits{Pids: 10, CPUs: 1 << 62})
	var refused *LimitError
	if !errors.As(err, &refused) || !errors.Is(err, ErrLimit) || refused.Controller != "cpu" || refused.Limit == "" {
		t.Errorf("%v", err)
	}
	if g, err := Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left %+v, %v", g, err)
	}
}

// TestNoController: a limit without a controller is refused by name.
func TestNoController(t *testing.T) {
	g := &Group{legacy: map[string]string{}}
	err := g.locateLegacy(&limit{controller: "no-such", value: "7"}, "x")
	var refused *LimitError
	if !errors.As(err, &refused) || refused.Controller != "no-such" || !errors.Is(err, cgroup.ErrNoController) {
		t.Errorf("%v", err)
	}
}

// TestEnable: a controller of version 2 is handed down to the group. Any that is there will do.
func TestEnable(t *testing.T) {
	g := create(t, Limits{})
	top, err := cgroup.Top()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	if err != nil || len(text) < 2 {
		t.Skip("no controller belongs to version 2 here")
	}
	controller := strings.Fields(string(text))[0]
	path, err := filepath.Rel(top, g.Directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.makeAbove(top, path, []string{controller}); err != nil {
		t.Fatal(err)
	}
	if here, err := unified(g.Directory, controller); err != nil || !here {
		t.Errorf("%s: %v, %v", controller, here, err)
	}
}

func TestPaths(t *testing.T) {
	for _, path := range []string{"", ".", "..", "../x", "/x", "x/../..", "x/", "x//y", "x/cgroup.procs", "./x"} {
		if _, err := Create(path, Limits{}); !errors.Is(err, ErrPath) {
			t.Errorf("%q: %v", path, err)
		}
	}
	g := create(t, Limits{Pids: 5})
	if _, err := Create(filepath.Join(parent, t.Name()), Limits{}); !errors.Is(err, ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	if empty, err := g.Empty(); err != nil || !empty {
		t.Errorf("empty %v, %v", empty, err)
	}
}

// TestRehearse: processes can be started after it.
func TestRehearse(t *testing.T) {
	g := create(t, Limits{Pids: 50})
	if err := g.Rehearse(); err != nil {
		t.Fatal(err)
	}
	command := run(t, g, "echo ready; sleep 1000")
	pids, err := g.Processes()
	if err != nil || !slices.Contains(pids, command.Process.Pid) {
		t.Errorf("%v, %v", pids, err)
	}
	if err := g.KillAll(patient(t)); err != nil {
		t.Error(err)
	}
	_ = command.Wait()
}

// TestChild: what is in a child belongs to the group, and can be killed alone.
func TestChild(t *testing.T) {
	g := create(t, Limits{Pids: 300})
	run(t, g, "echo ready; sleep 1000")
	child, err := g.Child("exec.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Child("exec.1"); !errors.Is(err, ErrExists) {
		t.Errorf("made again: %v", err)
	}
	for _, name := range []string{"", "a/b", "..", "cgroup.procs"} {
		if _, err := g.Child(name); !errors.Is(err, ErrPath) {
			t.Errorf("%q: %v", name, err)
		}
	}
	command := run(t, child, "trap '' TERM; echo ready; sleep 1000")
	all, err := g.Processes()
	if err != nil || !slices.Contains(all, command.Process.Pid) {
		t.Errorf("processes %v lack %d: %v", all, command.Process.Pid, err)
	}
	ctx := patient(t)
	if err := errors.Join(child.KillAll(ctx), child.Remove(ctx), child.Close()); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the child's process has succeeded")
	}
	if empty, err := g.Empty(); empty || err != nil {
		t.Errorf("the group is empty: %v, %v", empty, err)
	}
}

// TestUsage: a group has computed as long as its process says, and has its memory.
func TestUsage(t *testing.T) {
	const size = 64 << 20
	for name, limits := range map[string]Limits{"counted": {MemoryBytes: 8 * size, Pids: 10}, "not counted": {Pids: 10}} {
		t.Run(name, func(t *testing.T) {
			g := create(t, limits)
			command := exec.Command("awk", "-v", fmt.Sprint("size=", size), `BEGIN {
				while (length(text) < size) text = text "0123456789abcdef" text
				for (i = 0; i < 3000000; i++) sum += i
				print "ready"; fflush(); getline }`)
			command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
			leave := enter(t, g)
			out, err := command.StdoutPipe()
			if _, pipeErr := command.StdinPipe(); err == nil {
				err = pipeErr
			}
			if err == nil {
				err = command.Start()
			}
			leave()
			if err != nil {
				t.Fatal(err)
			}
			if n, err := out.Read(make([]byte, 6)); n != 6 {
				t.Fatal(err)
			}
			stat, err := proc.ReadStat(command.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			got, err := g.Usage()
			if err != nil {
				t.Fatal(err)
			}
			const precision = 50 * time.Millisecond // of ticks, and of what it computes meanwhile
			if got.CPU < stat.CPU-precision || got.CPU > stat.CPU+precision || stat.CPU == 0 {
				t.Errorf("the group has computed for %v, its process for %v", got.CPU, stat.CPU)
			}
			if !got.NoMemory && (got.MemoryBytes < size || got.MemoryBytes > 8*size) {
				t.Errorf("the group has %d bytes, and its process at least %d", got.MemoryBytes, size)
			}
			if got.NoMemory && limits.MemoryBytes > 0 {
				t.Error("memory that is limited is not counted")
			}
		})
	}
}

// enter moves the test's thread into a group, until leave is called.
func enter(t *testing.T, g *Group) (leave func()) {
	t.Helper()
	runtime.LockOSThread()
	back, err := g.Enter()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := back(); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	}
}
