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

// fewFiles lets a process open only a number of additional files, until enough is called. Its
// reserve of descriptors counts as open.
func (r *fixture) fewFiles(pid, more int) (enough func()) {
	r.t.Helper()
	return r.limitFiles(pid, reserveEnds(r.t, pid)+uint64(more))
}

// limitFiles sets a process's limit of open files.
func (r *fixture) limitFiles(pid int, files uint64) (enough func()) {
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

// plenty is more files than any operation here opens.
const plenty = 100

// withFew runs do with a growing number of files that may be opened, until it succeeds. Each error
// must name the shortage; failed checks what is left behind.
func (r *fixture) withFew(by int, pid func() int, do func() (string, error), failed func()) {
	r.t.Helper()
	for more := 0; more < plenty; more += by {
		enough := r.fewFiles(pid(), more)
		text, err := do()
		enough()
		r.t.Logf("%d more: %v: %s", more, err, strings.TrimSpace(text))
		switch {
		case err == nil && more == 0:
			r.t.Error("succeeded without a free file descriptor")
			return
		case err == nil:
			return
		case !namesShortage(text):
			r.t.Errorf("with %d more files the error does not name the shortage: %s", more, text)
		}
		if failed(); r.t.Failed() {
			return
		}
	}
	r.t.Errorf("did not succeed with any limit\n%s", r.log())
}

// stride is the distance between the limits that are tried. Each try takes part of a second.
func stride() int {
	if full() {
		return 1
	}
	return 3
}

// namesShortage reports whether an error says that file descriptors are exhausted. With the fewest
// files, Go's runtime fails before main and gives the number of the error. How many those are
// depends on the machine: the runtime keeps the files of the CPU limit of its cgroup open.
func namesShortage(text string) bool {
	runtime := fmt.Sprintf("failed with %d\n", unix.EMFILE)
	return strings.Contains(strings.ToLower(text), "too many open files") ||
		strings.Contains(text, "files open") || strings.Contains(text, runtime)
}

func (r *fixture) phosd() int { return r.daemon.PID() }

func (r *fixture) worker() int { return r.find("phosd worker ") }

// TestFewFilesCheckpoint: phosd or a worker cannot open as many files as a checkpoint needs.
func TestFewFilesCheckpoint(t *testing.T) {
	r := newFixture(t)
	r.job.PreDump()
	for _, test := range []struct {
		name    string
		process func() int
		stop    bool
	}{{"phosd, pre-dump", r.phosd, false}, {"worker, dump", r.worker, true}, {"phosd, dump", r.phosd, true}} {
		t.Run(test.name, func(t *testing.T) {
			r := r.forSubtest(t)
			before := r.snapshot()
			r.withFew(stride(), test.process, func() (string, error) { return r.tryCheckpoint(test.stop) }, func() {
				r.stillRuns()
				r.clean()
				r.unchanged(before, false)
			})
			r.oneGenerationMore(before)
			if test.stop {
				r.cleanWith(0, 0)
				r.restore()
			}
			r.stillRuns()
			r.clean()
		})
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestFewFilesRestore: phosd cannot open as many files as a restore needs.
func TestFewFilesRestore(t *testing.T) {
	r := newFixture(t)
	own := unix.Rlimit{Cur: 200, Max: 300}
	if err := unix.Prlimit(r.job.PID, unix.RLIMIT_NOFILE, &own, nil); err != nil {
		t.Fatal(err)
	}
	r.job.Dump()
	before := r.snapshot()
	r.withFew(stride(), r.phosd, func() (string, error) { return r.tryRestore() }, func() {
		r.cleanWith(0, 0)
		r.waitPIDFree()
		r.unchanged(before, false)
	})
	*r.restorers = 1
	var has unix.Rlimit
	if err := unix.Prlimit(r.job.PID, unix.RLIMIT_NOFILE, nil, &has); err != nil || has != own {
		t.Errorf("restored program has the limit %+v, want %+v: %v", has, own, err)
	}
	r.stillRuns()
	r.clean()
	r.job.PreDump()
	r.verified()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestFewFilesAttended is TestFewFilesRestore with a pos_cli that stays as long as the program
// runs.
func TestFewFilesAttended(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	enough := filepath.Join(r.job.Dir, "enough")
	if err := os.WriteFile(enough, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.withFew(stride(), r.phosd, func() (string, error) {
		text, err := r.job.TryCli("--restore", "--dir", r.job.Image)
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 7 {
			err = nil // the error is the program's exit status
		}
		return text, err
	}, func() {
		r.cleanWith(0, 0)
		r.waitPIDFree()
	})
	r.cleanWith(0, 0)
}

// TestFewFilesStart: phosd, or the program, cannot open as many files as the start of a program
// needs.
func TestFewFilesStart(t *testing.T) {
	r := newFixture(t)
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
		) //nolint:gocritic // a new slice is wanted
		p := r.daemon.Program(command[0], command[1:]...)
		p.Dir = dir
		err := p.Run()
		if p.ProcessState.ExitCode() == 7 {
			err = nil
		}
		return p.Output.String(), err
	}
	r.withFew(1, r.phosd, func() (string, error) { return begin() }, func() {
		r.stillRuns()
		r.clean()
	})
	r.clean()
	for files := 4; files < plenty; files++ { // with fewer the dynamic loader finds no library
		text, err := begin(prlimit(t), fmt.Sprintf("--nofile=%d", files))
		r.clean()
		if err == nil {
			break
		}
		if !namesShortage(text) {
			t.Errorf("with %d files the error does not name the shortage: %s", files, text)
		}
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

func prlimit(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prlimit")
	harness.Need(t, "root", err) // systems with user limits have the prlimit tool
	return path
}

// TestFewFilesWorkerDies: a worker dies while phosd cannot open files. The program gets an error,
// and nothing is left of the session.
func TestFewFilesWorkerDies(t *testing.T) {
	r := newFixture(t)
	enough := r.limitFiles(r.phosd(), 0) // closing some files does not help either
	worker := r.worker()
	if err := unix.Kill(worker, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string { return describe(worker) })
	r.waitLog(0, "cannot tell a program yet that its worker is dead.*too many open files")
	enough()
	if status := r.job.Finish(); status == 7 {
		t.Error("program ended without an error")
	}
	r.cleanWith(0, 0)
}

// TestFewFilesNext: a phosd that is started with too few files reports that, or works. Programs of
// the previous phosd and their restorers continue until a phosd starts with enough files.
func TestFewFilesNext(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	r.restore()
	before := r.job.Lines()
	for files := 6; ; files += stride() { // from Go's own start on
		r.daemon.Kill()
		text, err := r.daemon.TryLaunch(prlimit(t), fmt.Sprintf("--nofile=%d", files))
		t.Logf("%d files: %v: %s", files, err, text)
		if err == nil {
			break
		}
		if !namesShortage(text) {
			t.Fatalf("with %d files the error of phosd does not name the shortage: %s", files, text)
		}
		if files > plenty {
			t.Fatal("phosd did not start with any limit")
		}
	}
	r.daemon.Relaunch()
	r.job.WaitLines(before + 3)
	r.stillRuns()
	r.clean()
	r.job.Dump()
	r.cleanWith(0, 0)
	r.restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestFewFilesRestorer: a restorer cannot open files. The next phosd finds it; checkpoint and end
// of the program work as usual.
func TestFewFilesRestorer(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	r.restore()
	enough := r.fewFiles(r.find("phosd restorer"), 0)
	r.daemon.Relaunch()
	r.clean()
	r.job.PreDump()
	r.verified()
	r.finishAndCompare()
	enough()
	r.cleanWith(0, 0)
}

// TestFewFilesCommand: pos_cli itself cannot open enough files.
func TestFewFilesCommand(t *testing.T) {
	r := newFixture(t)
	r.job.PreDump()
	for _, verb := range [][]string{
		{"--status"},
		{"--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)},
		{"--dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)},
		{"--restore", "--detach", "--dir", r.job.Image},
	} {
		t.Run(verb[0], func(t *testing.T) {
			r := r.forSubtest(t)
			before, programs := r.snapshot(), len(r.daemon.Status().GetPrograms())
			for files := 4; files < plenty; files++ {
				command := r.daemon.Command(verb...)
				command.Args = append([]string{"prlimit", fmt.Sprintf("--nofile=%d", files), command.Path}, verb...)
				command.Path = prlimit(t)
				text, err := r.daemon.Run(command)
				if err == nil {
					break
				}
				if command.ProcessState.ExitCode() == noDaemon || !namesShortage(string(text)) {
					t.Fatalf("with %d files the error does not name the shortage: %v: %s", files, err, text)
				}
				r.cleanWith(programs, *r.restorers)
				r.unchanged(before, false)
			}
			r.verified()
			if verb[0] == "--dump" {
				r.job.WaitGone()
			}
		})
	}
	*r.restorers = 1
	r.stillRuns()
	r.clean()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}
