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

// soon is the pid of a process whose command line has a text in it, as soon as there is one; 0 when
// a command ends before.
func soon(t testing.TB, text string, ended <-chan struct{}) int {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		processes, _ := caged(t)
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
			t.Fatalf("never: a process with %q", text)
		}
	}
}

// struck starts a command of pos_cli, kills a process that appears while it runs, after a delay,
// and waits for its end.
func (r *room) struck(text string, delay time.Duration, command *exec.Cmd) (output string, err error) {
	r.t.Helper()
	ended := make(chan struct{})
	var said []byte
	go func() {
		defer close(ended)
		said, err = command.CombinedOutput()
	}()
	if pid := soon(r.t, text, ended); pid != 0 {
		time.Sleep(delay)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	select {
	case <-ended:
	case <-time.After(3 * harness.Patience):
		r.t.Fatalf("pos_cli does not end\n%s", r.log())
	}
	return string(said), err
}

// criu is what the command line of CRIU has in it.
const criu = "/criu swrk"

// delays are moments in the life of CRIU.
func delays(t testing.TB) []time.Duration {
	count := 12
	if full() {
		count = 60
	}
	var all []time.Duration
	for i := range count {
		all = append(all, time.Duration(i)*60*time.Millisecond/time.Duration(count))
	}
	return all
}

// full says that everything shall be tried, and not only as much as fits into minutes.
func full() bool { return os.Getenv("CRASH") == "full" }

// TestDumpLosesCRIU kills CRIU at many moments of a dump.
func TestDumpLosesCRIU(t *testing.T) {
	r := newRoom(t)
	r.job.PreDump()
	for i, delay := range delays(t) {
		t.Run(delay.String(), func(t *testing.T) {
			r := r.in(t)
			before := r.snapshot()
			text, err := r.struck(
				criu,
				delay,
				r.daemon.Command("--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)),
			)
			t.Logf("%v: %s", err, text)
			if r.ended(err, text) {
				r.tidy(0, 0)
				r.free()
				r.unchanged(before, false)
				r.restore()
				return
			}
			r.runsOn()
			r.alone()
			if err == nil {
				r.grown(before)
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
	r.ends()
	r.tidy(0, 0)
	r.job.Restore()
	r.ends()
}

// ended says that CRIU died within the program, in a way that could not be mended
// (watchdog.ErrDamaged): the program is gone then, the checkpoint has failed and says so. Whatever
// else ends the program is a mistake.
func (r *room) ended(err error, text string) bool {
	r.t.Helper()
	if err == nil ||
		!strings.Contains(text, "the program was ended") && !strings.Contains(text, "ended while it was saved") {
		return false
	}
	r.eventually(func() string {
		if r.job.Alive() {
			return "the program is said to have ended, and has not"
		}
		return ""
	})
	return true
}

// TestRestoreLosesCRIU kills CRIU, or the keeper, at many moments of a restore.
func TestRestoreLosesCRIU(t *testing.T) {
	for _, who := range []string{criu, "/proc/self/exe keeper"} {
		t.Run(strings.Fields(who)[len(strings.Fields(who))-1], func(t *testing.T) {
			r := newRoom(t)
			r.job.Dump()
			for _, delay := range delays(t) {
				t.Run(delay.String(), func(t *testing.T) { r.in(t).restoreLoses(who, delay) })
				if t.Failed() {
					return
				}
			}
			r.job.Restore()
			r.ends()
			r.tidy(0, 0)
		})
	}
}

func (r *room) restoreLoses(who string, delay time.Duration) {
	before := r.snapshot()
	text, err := r.struck(who, delay, r.daemon.Command("--restore", "--detach", "--dir", r.job.Image))
	r.t.Logf("%v: %s", err, text)
	if err == nil {
		*r.keepers = 1
		if who == criu {
			r.runsOn()
		}
		r.job.Kill()
	}
	r.tidy(0, 0)
	r.free()
	r.unchanged(before, false)
}

// free waits until no process has the program's pid. init reaps a tree whose restorer was killed.
func (r *room) free() {
	r.t.Helper()
	r.eventually(func() string {
		if err := syscall.Kill(r.job.PID, 0); err == nil {
			return fmt.Sprintf("pid %d is not free: %s", r.job.PID, describe(r.job.PID))
		}
		return ""
	})
}
