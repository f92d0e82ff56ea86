package crash

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// waitProcess waits for a process whose command line contains text and returns its pid. It returns
// 0 if the command ends first.
func waitProcess(t testing.TB, text string, ended <-chan struct{}) int {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		processes, _ := inTestCgroup(t)
		for pid, what := range processes {
			if pid != os.Getpid() && strings.Contains(what, text) {
				return pid
			}
		}
		select {
		case <-ended:
			return 0
		default:
		}
		if time.Since(begun) > 3*harness.Patience {
			t.Fatalf("no process with %q in its command line", text)
		}
	}
}

// killProcessDuring starts a command of pos_cli, kills a process that appears while it runs, after
// a delay, and waits for the command's end.
func (r *fixture) killProcessDuring(text string, delay time.Duration, command *exec.Cmd) (output string, err error) {
	r.t.Helper()
	ended := make(chan struct{})
	var combined []byte
	go func() {
		defer close(ended)
		combined, err = command.CombinedOutput()
	}()
	if pid := waitProcess(r.t, text, ended); pid != 0 {
		time.Sleep(delay)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	select {
	case <-ended:
	case <-time.After(3 * harness.Patience):
		r.t.Fatalf("pos_cli did not end\n%s", r.log())
	}
	return string(combined), err
}

// criu is part of CRIU's command line.
const criu = "/criu swrk"

// delays are times after the start of CRIU.
func delays(t testing.TB) []time.Duration {
	count := 8
	if full() {
		count = 60
	}
	var all []time.Duration
	for i := range count {
		all = append(all, time.Duration(i)*60*time.Millisecond/time.Duration(count))
	}
	return all
}

// full reports whether every case is run, rather than a sample that fits into minutes.
func full() bool { return os.Getenv("CRASH") == "full" }

// TestDumpLosesCRIU kills CRIU at many points of a dump.
func TestDumpLosesCRIU(t *testing.T) {
	r := newFixture(t)
	r.job.PreDump()
	for i, delay := range delays(t) {
		t.Run(delay.String(), func(t *testing.T) {
			r := r.forSubtest(t)
			before := r.snapshot()
			text, err := r.killProcessDuring(
				criu,
				delay,
				r.daemon.Command("--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)),
			)
			t.Logf("%v: %s", err, text)
			if r.endedByDamage(err, text) {
				r.cleanWith(0, 0)
				r.waitPIDFree()
				r.unchanged(before, false)
				r.restore()
				return
			}
			r.stillRuns()
			r.clean()
			if err == nil {
				r.oneGenerationMore(before)
			} else {
				r.unchanged(before, false)
			}
			if i%4 == 3 {
				r.job.PreDump()
				r.verified()
			}
		})
		if t.Failed() {
			return
		}
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
	r.job.Restore()
	r.finishAndCompare()
}

// endedByDamage reports whether CRIU died inside the program and damaged it beyond repair
// (watchdog.ErrDamaged). The program has ended then, and the checkpoint must report the failure.
// Any other end of the program is a bug.
func (r *fixture) endedByDamage(err error, text string) bool {
	r.t.Helper()
	if err == nil ||
		!strings.Contains(text, "the program was ended") && !strings.Contains(text, "ended while it was saved") {
		return false
	}
	r.eventually(func() string {
		if r.job.Alive() {
			return "phosd reports that the program ended, but it still runs"
		}
		return ""
	})
	return true
}

// TestRestoreLosesCRIU kills CRIU, or the restorer, at many points of a restore.
func TestRestoreLosesCRIU(t *testing.T) {
	for _, target := range []string{criu, "phosd restorer"} {
		t.Run(strings.Fields(target)[len(strings.Fields(target))-1], func(t *testing.T) {
			r := newFixture(t)
			r.job.Dump()
			for _, delay := range delays(t) {
				t.Run(delay.String(), func(t *testing.T) { r.forSubtest(t).restoreLosesProcess(target, delay) })
				if t.Failed() {
					return
				}
			}
			r.job.Restore()
			r.finishAndCompare()
			r.cleanWith(0, 0)
		})
	}
}

// restoreLosesProcess kills a process during a restore and checks what is left.
func (r *fixture) restoreLosesProcess(target string, delay time.Duration) {
	before := r.snapshot()
	text, err := r.killProcessDuring(target, delay, r.daemon.Command("--restore", "--detach", "--dir", r.job.Image))
	r.t.Logf("%v: %s", err, text)
	if err == nil {
		*r.restorers = 1
		if target == criu {
			r.stillRuns()
		}
		r.job.Kill()
	}
	r.cleanWith(0, 0)
	r.waitPIDFree()
	r.unchanged(before, false)
}

// waitPIDFree waits until no process has the program's pid. init reaps a tree whose restorer was
// killed.
func (r *fixture) waitPIDFree() {
	r.t.Helper()
	r.eventually(func() string {
		if err := syscall.Kill(r.job.PID, 0); err == nil {
			return fmt.Sprintf("pid %d is not free: %s", r.job.PID, describe(r.job.PID))
		}
		return ""
	})
}
