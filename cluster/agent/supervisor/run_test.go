package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/linux/boottime"
)

func TestCompleted(t *testing.T) {
	f := newFixture(t, "echo one; echo two >&2", `printf 'no end\377'`)
	f.start()
	status := f.end()
	f.expect(status, Completed, succeeded, succeeded)
	got := f.printed()
	slices.Sort(got)
	if want := []string{"0 err two", "0 out one", "1 out no end\xff"}; !slices.Equal(got, want) {
		t.Errorf("printed %q, want %q", got, want)
	}
	r := f.Log(linelog.Position{})
	defer r.Close()
	if err := r.Follow(f.patient(), func(linelog.Entry) error { return nil }); err != nil || !r.Ended() {
		t.Errorf("follow: %v, ended %v", err, r.Ended())
	}
	for name, err := range map[string]error{
		"stop": f.Stop(f.patient(), 0), "kill": f.Kill(f.patient()),
	} {
		if err != nil {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
	if err := f.Extend(f.patient(), boottime.Now()); !errors.Is(err, ErrEnded) {
		t.Errorf("extend after the end: %v", err)
	}
	if err := f.Signal(f.patient(), 0, unix.SIGTERM); !errors.Is(err, ErrEnded) {
		t.Errorf("signal after the end: %v", err)
	}
	if _, err := Start(f.patient(), f.root, f.spec); !errors.Is(err, ErrExists) {
		t.Errorf("started again: %v", err)
	}
}

// TestFailure: when one process fails the others are asked to end.
func TestFailure(t *testing.T) {
	f := newFixture(
		t,
		"echo ready; while :; do sleep 1; done",
		"trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done",
		"read line < $HERE/go; exit 3",
	)
	f.fail()
	f.expect(f.end(), Failed, terminated+", stopped", "ended with status 7, stopped", "ended with status 3")
	if !slices.Contains(f.printed(), "1 out asked") {
		t.Errorf("printed %q", f.printed())
	}
}

// TestFailureIgnored: what ignores that it is asked is killed when the grace is over.
func TestFailureIgnored(t *testing.T) {
	f := newFixture(
		t,
		"trap '' TERM; echo ready; while :; do sleep 1; done",
		"trap '' TERM; echo ready; while :; do sleep 1; done",
		"read line < $HERE/go; exit 3",
	)
	f.spec.Grace = 300 * time.Millisecond
	f.fail()
	f.expect(f.end(), Failed, killed+", stopped", killed+", stopped", "ended with status 3")
}

// fail starts two processes and a third one, which fails once they are ready.
func (f *fixture) fail() {
	f.Helper()
	if err := unix.Mkfifo(filepath.Join(f.root, "go"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.start()
	f.says("0 out ready")
	f.says("1 out ready")
	if err := os.WriteFile(filepath.Join(f.root, "go"), []byte("x\n"), 0); err != nil {
		f.Fatal(err)
	}
	status, err := f.Wait(f.patient())
	if want := "process 2 ended with status 3"; err != nil || status.Detail != want {
		f.Errorf("detail %q, want %q, %v", status.Detail, want, err)
	}
}

// TestStop: the whole group is asked, children too, and a later call can only shorten the grace.
func TestStop(t *testing.T) {
	f := newFixture(t, `trap : TERM
		sh -c 'trap "echo child asked; exit" TERM; echo child ready; while :; do sleep 0.01; done' &
		echo ready; while :; do sleep 1; done`)
	f.start()
	f.says("0 out ready")
	f.says("0 out child ready")
	if err := f.Stop(f.patient(), time.Hour); err != nil {
		t.Fatal(err)
	}
	f.says("0 out child asked")
	if err := errors.Join(f.Stop(f.patient(), 2*time.Hour), f.Stop(f.patient(), time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Stopped, killed+", stopped")
}

// TestStopContinues: a stopped process can still end by itself.
func TestStopContinues(t *testing.T) {
	f := newFixture(t, `trap 'echo asked; exit 0' TERM; echo ready; kill -STOP $$; while :; do sleep 0.01; done`)
	f.start()
	f.says("0 out ready")
	if err := f.Stop(f.patient(), time.Hour); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Stopped, succeeded+", stopped")
	if !slices.Contains(f.printed(), "0 out asked") {
		t.Errorf("printed %q", f.printed())
	}
}

func TestKill(t *testing.T) {
	f := newFixture(t, "trap '' TERM; echo ready; while :; do sleep 1; done")
	f.start()
	f.says("0 out ready")
	if err := f.Kill(f.patient()); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Killed, killed+", stopped")
}

// TestKillWhileStopping: a kill does not wait for the grace of a stop.
func TestKillWhileStopping(t *testing.T) {
	f := newFixture(t, "trap '' TERM; echo ready; while :; do sleep 1; done")
	f.start()
	f.says("0 out ready")
	if err := errors.Join(f.Stop(f.patient(), time.Hour), f.Kill(f.patient())); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Stopped, killed+", stopped")
}

func TestSignal(t *testing.T) {
	f := newFixture(t, "trap 'echo hup; exit 0' HUP; echo ready; while :; do sleep 0.01; done", "exit 0")
	f.start()
	f.says("0 out ready")
	f.eventually("process 1 ends", func() bool {
		status, err := f.Status(f.patient())
		return err == nil && len(status.Exits()) == 1
	})
	if err := f.Signal(f.patient(), 1, unix.SIGHUP); !errors.Is(err, ErrProcess) {
		t.Errorf("a process that has ended: %v", err)
	}
	if err := f.Signal(f.patient(), 2, unix.SIGHUP); !errors.Is(err, ErrProcess) {
		t.Errorf("no such process: %v", err)
	}
	if err := f.Signal(f.patient(), 0, 65); !errors.Is(err, ErrRefused) {
		t.Errorf("no such signal: %v", err)
	}
	status := f.started()
	if pids := status.Pids(); len(pids) != 1 || pids[0] != status.Processes[0].Identity || pids[0].Check() != nil {
		t.Errorf("pids %v of %+v", pids, status)
	}
	if err := f.Signal(f.patient(), 0, unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Completed, succeeded, succeeded)
}

// TestCannotStart: the owner reads what to do, and the other processes end.
func TestCannotStart(t *testing.T) {
	f := newFixture(t)
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(f.root, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain, script := file("plain", "exit 0\n", 0o600), file("script", "#!/no/such/interpreter\n", 0o755)
	odd, good := file("odd", "\x7fnothing", 0o755), file("good", "#!/bin/sh\n", 0o755)
	private := filepath.Join(f.root, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(f.root, 0o711), os.Chmod(filepath.Dir(f.root), 0o711)); err != nil {
		t.Fatal(err)
	}
	user := func(p Process) Process { p.UID, p.GID = 54321, 54321; return p }
	in := func(directory string, p Process) Process { p.Directory = directory; return p }
	for name, test := range map[string]struct {
		process Process
		want    string
	}{
		"no program":           {f.process("/no/such"), "no program /no/such on this node"},
		"not in PATH":          {f.process("no-such-program"), "no program no-such-program in the PATH"},
		"empty PATH":           {Process{Command: []string{"sh"}, Directory: "/", Environment: []string{"PATH="}}, "in the PATH"},
		"not executable":       {f.process(plain), "is not executable (chmod +x)"},
		"a directory":          {f.process(private), "is a directory"},
		"no interpreter":       {f.process(script), "the interpreter of"},
		"no program's content": {f.process(odd), "is no program for this machine"},
		"no directory":         {in("/no/such", f.process("sh")), "there is no directory /no/such"},
		"not a directory":      {in(plain, f.process("sh")), "is not a directory"},
		"closed directory":     {in(private, user(f.process("sh"))), "user 54321 may not enter the directory"},
		"not the user's":       {in("/", user(f.process(file("own", "#!/bin/sh\n", 0o700)))), "user 54321 may not execute"},
		"too long":             {f.process("sh", strings.Repeat("x", 200<<10)), "longer than the kernel takes"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			g := newFixture(t)
			g.spec.Processes = []Process{
				g.process("sh", "-c", "while :; do sleep 1; done"), test.process, g.process(good),
			}
			g.start()
			status := g.end()
			exits := status.Exits()
			if len(exits) != 3 || !strings.Contains(exits[1].Error, test.want) || exits[1].Stopped {
				t.Fatalf("exits %q, want %q", exits, test.want)
			}
			if len(exits[1].Error) > 400 {
				t.Errorf("%d bytes", len(exits[1].Error))
			}
			if status.Reason != Failed || !exits[0].Stopped || !exits[2].Stopped || exits[2].Error == "" {
				t.Errorf("%+v", status)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	f := newFixture(t, "exit 0")
	for name, change := range map[string]func(*Spec){
		"no processes": func(s *Spec) { s.Processes = nil },
		"no command":   func(s *Spec) { s.Processes[0].Command = nil },
		"relative":     func(s *Spec) { s.Processes[0].Directory = "x" },
		"no user":      func(s *Spec) { s.Processes[0].UID = math.MaxUint32 },
		"NUL":          func(s *Spec) { s.Processes[0].Environment = []string{"A=\x00"} },
		"key":          func(s *Spec) { s.Launch = "../x" },
		"attempt":      func(s *Spec) { s.Key.Attempt = -1 },
		"grace":        func(s *Spec) { s.Grace = -1 },
		"log":          func(s *Spec) { s.Log.TotalBytes = 1 },
		"cgroup":       func(s *Spec) { s.CgroupParent = "../x" },
	} {
		spec := f.spec
		spec.Processes = slices.Clone(spec.Processes)
		change(&spec)
		if _, err := Start(f.patient(), f.root, spec); err == nil {
			t.Errorf("%s: started", name)
		}
		if keys, err := List(f.root); err != nil || len(keys) > 0 {
			t.Errorf("%s: left %v, %v", name, keys, err)
		}
	}
}

func TestKeys(t *testing.T) {
	for name, valid := range map[string]bool{
		"train.0.1": true, "a-B_9.12.300": true,
		"train.0": false, "train.0.1.2": false, "train.00.1": false, "train.-1.0": false, ".0.1": false,
		"tr/ain.0.1": false, "": false, "train.x.1": false, strings.Repeat("a", 64) + ".0.0": false,
	} {
		key, err := ParseKey(name)
		if (err == nil) != valid || valid && key.String() != name {
			t.Errorf("%q: %+v, %v", name, key, err)
		}
	}
}

// TestMany: attempts do not disturb each other.
func TestMany(t *testing.T) {
	f := newFixture(t, "echo $$ > $HERE/$NAME; read line < $HERE/go")
	if err := unix.Mkfifo(filepath.Join(f.root, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	const count = 24
	attempts := make([]*Attempt, count)
	failed := make(chan error, count)
	for i := range count {
		go func() {
			spec := f.spec
			spec.Replica = i
			spec.Processes = slices.Clone(spec.Processes)
			spec.Processes[0].Environment = append(slices.Clone(spec.Processes[0].Environment), "NAME=pid-"+spec.Key.String())
			var err error
			attempts[i], err = Start(f.patient(), f.root, spec)
			failed <- err
		}()
	}
	for range count {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := List(f.root); err != nil || len(keys) != count {
		t.Errorf("%v, %v", keys, err)
	}
	for i, each := range attempts {
		status, err := each.Started(f.patient())
		if err != nil || status.Key != each.Key || f.pidIn("pid-"+each.Key.String()) != status.Processes[0].PID {
			t.Errorf("%+v, %v", status, err)
		}
		if i%2 == 0 {
			err = each.Kill(f.patient())
		} else {
			err = each.Stop(f.patient(), time.Hour)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for i, each := range attempts {
		status, err := each.Wait(f.patient())
		if want := []Reason{Killed, Stopped}[i%2]; err != nil || status.Reason != want {
			t.Errorf("%+v, %v", status, err)
		}
		if err := each.Remove(f.patient()); err != nil {
			t.Error(err)
		}
		f.eventually("the supervisor exits", status.Supervisor.Gone)
	}
	if left := f.marked(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestAwait: a caller that waits no longer gets the error of its context, also if the supervisor is
// ready.
func TestAwait(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the agent ends")
	cancel(cause)
	for _, answered := range []bool{true, false} {
		ready, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if answered {
			err = json.NewEncoder(theirs).Encode(newReadiness(nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := await(ended, ready); !errors.Is(err, cause) {
			t.Errorf("answered %v: %v", answered, err)
		}
		_, _ = ready.Close(), theirs.Close()
	}
}

// TestContext: a caller that waits no longer disturbs nothing.
func TestContext(t *testing.T) {
	f := newFixture(t, "while :; do sleep 1; done")
	f.start()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	if _, err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waited: %v", err)
	}
	started := f.spec
	started.Replica = 7
	if _, err := Start(ctx, f.root, started); !errors.Is(err, context.Canceled) {
		t.Errorf("started: %v", err)
	}
	if keys, err := List(f.root); err != nil || len(keys) != 1 {
		t.Errorf("left %v, %v", keys, err)
	}
	if status := f.started(); status.State != Running {
		t.Errorf("%+v", status)
	}
}
