package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// few lets a process open only some more files than it has, until what it returns is called. What
// it keeps back for callers counts as open.
func (r *room) few(pid, more int) (enough func()) {
	r.t.Helper()
	return r.limit(pid, reserveEnds(r.t, pid)+uint64(more))
}

// limit has descriptors of a process end below a number.
func (r *room) limit(pid int, files uint64) (enough func()) {
	r.t.Helper()
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		r.t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: files, Max: was.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil); err != nil && !errors.Is(err, unix.ESRCH) {
			r.t.Errorf("pid %d: %v", pid, err)
		}
	}
}

// plenty is more files than anything takes here.
const plenty = 100

// withFew does something with a growing number of files that may be opened, until it succeeds. Each
// failure must name what is missing; failed checks what it leaves behind.
func (r *room) withFew(by int, pid func() int, do func() (string, error), failed func()) {
	r.t.Helper()
	for more := 0; more < plenty; more += by {
		enough := r.few(pid(), more)
		text, err := do()
		enough()
		r.t.Logf("%d more: %v: %s", more, err, strings.TrimSpace(text))
		switch {
		case err == nil && more == 0:
			r.t.Error("it succeeds without any descriptor")
			return
		case err == nil:
			return
		case !lacksFiles(text):
			r.t.Errorf("with %d more files it does not say what is missing: %s", more, text)
		}
		if failed(); r.t.Failed() {
			return
		}
	}
	r.t.Errorf("it never succeeds\n%s", r.log())
}

// stride is how far the numbers of files that are tried lie apart: each takes part of a second.
func stride() int {
	if full() {
		return 1
	}
	return 3
}

func lacksFiles(text string) bool {
	return strings.Contains(strings.ToLower(text), "too many open files") || strings.Contains(text, "files open")
}

func (r *room) phosd() int { return r.daemon.PID() }

func (r *room) worker() int { return r.find("phosd worker ") }

// TestFewFilesSave: neither phosd nor a worker can open as many files as a checkpoint takes.
func TestFewFilesSave(t *testing.T) {
	r := newRoom(t)
	r.job.PreDump()
	for _, test := range []struct {
		name string
		who  func() int
		stop bool
	}{{"phosd, pre-dump", r.phosd, false}, {"worker, dump", r.worker, true}, {"phosd, dump", r.phosd, true}} {
		t.Run(test.name, func(t *testing.T) {
			r := r.in(t)
			before := r.snapshot()
			r.withFew(stride(), test.who, func() (string, error) { return r.save(test.stop) }, func() {
				r.runsOn()
				r.alone()
				r.unchanged(before, false)
			})
			r.grown(before)
			if test.stop {
				r.tidy(0, 0)
				r.restore()
			}
			r.runsOn()
			r.alone()
		})
	}
	r.ends()
	r.tidy(0, 0)
}

// TestFewFilesBring: phosd cannot open as many files as a restore takes.
func TestFewFilesBring(t *testing.T) {
	r := newRoom(t)
	own := unix.Rlimit{Cur: 200, Max: 300}
	if err := unix.Prlimit(r.job.PID, unix.RLIMIT_NOFILE, &own, nil); err != nil {
		t.Fatal(err)
	}
	r.job.Dump()
	before := r.snapshot()
	r.withFew(stride(), r.phosd, func() (string, error) { return r.bring() }, func() {
		r.tidy(0, 0)
		r.free()
		r.unchanged(before, false)
	})
	*r.keepers = 1
	var has unix.Rlimit
	if err := unix.Prlimit(r.job.PID, unix.RLIMIT_NOFILE, nil, &has); err != nil || has != own {
		t.Errorf("the program comes back with the limit %+v, and had %+v: %v", has, own, err)
	}
	r.runsOn()
	r.alone()
	r.job.PreDump()
	r.verified()
	r.ends()
	r.tidy(0, 0)
}

// TestFewFilesBeside: as TestFewFilesBring, and pos_cli stays for as long as the program runs,
// however few files phosd may open.
func TestFewFilesBeside(t *testing.T) {
	r := newRoom(t)
	r.job.Dump()
	enough := filepath.Join(r.job.Dir, "enough")
	if err := os.WriteFile(enough, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.withFew(stride(), r.phosd, func() (string, error) {
		text, err := r.job.TryCli("--restore", "--dir", r.job.Image)
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 7 {
			err = nil // it is the program's
		}
		return text, err
	}, func() {
		r.tidy(0, 0)
		r.free()
	})
	r.tidy(0, 0)
}

// TestFewFilesStart: phosd cannot open as many files as the start of a program takes, or the
// program cannot.
func TestFewFilesStart(t *testing.T) {
	r := newRoom(t)
	begin := func(prefix ...string) (string, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "enough"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		command := append(
			prefix,
			harness.CompileC(t, true, harness.Workload("checkpoint", "count.c")),
			"3",
			"100",
			"10",
			"enough",
		) //nolint:gocritic // a new one
		p := r.daemon.Program(command[0], command[1:]...)
		p.Dir = dir
		err := p.Run()
		if p.ProcessState.ExitCode() == 7 {
			err = nil
		}
		return p.Output.String(), err
	}
	r.withFew(1, r.phosd, func() (string, error) { return begin() }, func() {
		r.runsOn()
		r.alone()
	})
	r.alone()
	for files := 4; files < plenty; files++ { // with fewer the dynamic loader finds no library
		text, err := begin(prlimit(t), fmt.Sprintf("--nofile=%d", files))
		r.alone()
		if err == nil {
			break
		}
		if !lacksFiles(text) {
			t.Errorf("with %d files it does not say what is missing: %s", files, text)
		}
	}
	r.ends()
	r.tidy(0, 0)
}

func prlimit(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prlimit")
	harness.Need(t, "root", err) // where users have limits, there is a program that sets them
	return path
}

// TestFewFilesDeath: a worker dies while phosd can open nothing. The program hears of it, and
// nothing is left of the session.
func TestFewFilesDeath(t *testing.T) {
	r := newRoom(t)
	enough := r.limit(r.phosd(), 0) // nor does it help that it closes some
	worker := r.worker()
	if err := unix.Kill(worker, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string { return describe(worker) })
	r.says(0, "cannot tell a program yet that its worker is dead.*too many open files")
	enough()
	if status := r.job.Finish(); status == 7 {
		t.Error("the program ends as if nothing had happened")
	}
	r.tidy(0, 0)
}

// TestFewFilesNext: a phosd that is started with too few files says so, or serves; the programs of
// the one before, and their keepers, go on until one comes that has enough.
func TestFewFilesNext(t *testing.T) {
	r := newRoom(t)
	r.job.Dump()
	r.restore()
	before := r.job.Lines()
	for files := 9; ; files += stride() { // with less there is no phosd yet: Go's own start fails
		r.daemon.Kill()
		text, err := r.daemon.TryLaunch(prlimit(t), fmt.Sprintf("--nofile=%d", files))
		t.Logf("%d files: %v: %s", files, err, text)
		if err == nil {
			break
		}
		if !lacksFiles(text) {
			t.Fatalf("with %d files phosd does not say what is missing: %s", files, text)
		}
		if files > plenty {
			t.Fatal("it never starts")
		}
	}
	r.daemon.Relaunch()
	r.job.Reaches(before + 3)
	r.runsOn()
	r.alone()
	r.job.Dump()
	r.tidy(0, 0)
	r.restore()
	r.ends()
	r.tidy(0, 0)
}

// TestFewFilesKeeper: a keeper can open nothing; the next phosd finds it, and the program is saved
// and ends as ever.
func TestFewFilesKeeper(t *testing.T) {
	r := newRoom(t)
	r.job.Dump()
	r.restore()
	enough := r.few(r.find("/proc/self/exe keeper"), 0)
	r.daemon.Relaunch()
	r.alone()
	r.job.PreDump()
	r.verified()
	r.ends()
	enough()
	r.tidy(0, 0)
}

// TestFewFilesCommand: pos_cli itself cannot open as many files as it wants.
func TestFewFilesCommand(t *testing.T) {
	r := newRoom(t)
	r.job.PreDump()
	for _, verb := range [][]string{
		{"--status"},
		{"--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)},
		{"--dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)},
		{"--restore", "--detach", "--dir", r.job.Image},
	} {
		t.Run(verb[0], func(t *testing.T) {
			r := r.in(t)
			before, programs := r.snapshot(), len(r.daemon.Status().GetPrograms())
			for files := 4; files < plenty; files++ {
				if files == 6 || files == 7 {
					continue // Go's own start fails
				}
				command := r.daemon.Command(verb...)
				command.Args = append([]string{"prlimit", fmt.Sprintf("--nofile=%d", files), command.Path}, verb...)
				command.Path = prlimit(t)
				text, err := r.daemon.Run(command)
				if err == nil {
					break
				}
				if command.ProcessState.ExitCode() == noDaemon || !lacksFiles(string(text)) {
					t.Fatalf("with %d files it does not say what is missing: %v: %s", files, err, text)
				}
				r.tidy(programs, *r.keepers)
				r.unchanged(before, false)
			}
			r.verified()
			if verb[0] == "--dump" {
				r.job.Gone()
			}
		})
	}
	*r.keepers = 1
	r.runsOn()
	r.alone()
	r.ends()
	r.tidy(0, 0)
}
