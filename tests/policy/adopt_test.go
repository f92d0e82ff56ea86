package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// deaths are the ways in which a phosd ends.
var deaths = map[string]func(*testing.T, *harness.Daemon){
	"killed": func(_ *testing.T, daemon *harness.Daemon) { daemon.Kill() },
	"ended": func(t *testing.T, daemon *harness.Daemon) {
		if err := syscall.Kill(daemon.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		daemon.Await()
	},
}

// TestAdopted: a restored program outlives its phosd; the next one knows it and its image, saves
// it, and sees its end.
func TestAdopted(t *testing.T) {
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			daemon := start(t)
			job := counting(t, daemon, "1500", "2000", "20000").Start()
			job.WaitLines(5)
			job.Dump()
			job.RestoreDetached()
			before := programOf(daemon, job)
			die(t, daemon)
			job.WaitLines(job.Lines() + 3)
			daemon.Launch()
			daemon.LogContains("adopted a restored tree")
			after := programOf(daemon, job)
			if after.GetSession() != before.GetSession() || after.GetCheckpointDir() != job.Image ||
				after.GetLastCheckpointUnixMilliseconds() != before.GetLastCheckpointUnixMilliseconds() || before.GetCheckpointGeneration() != 1 {
				t.Errorf("before %v, after %v", before, after)
			}
			job.PreDump()
			if got := programOf(daemon, job).GetCheckpointGeneration(); got != 2 {
				t.Errorf("generation %d is the last", got)
			}
			die(t, daemon)
			daemon.Launch()
			job.Kill()
			daemon.Empty()
			job.Restore() // what the adopted program was saved as
			if got := job.Finish(); got != counted {
				t.Errorf("the program ends with %d: %s", got, job.Stderr())
			}
			daemon.Empty()
		})
	}
}

// TestEndsUnseen: a restored program that ends while no phosd runs leaves nothing behind for the
// next one.
func TestEndsUnseen(t *testing.T) {
	daemon := start(t)
	job := counting(t, daemon, "1500", "2000", "20000").Start()
	job.WaitLines(5)
	job.Dump()
	job.RestoreDetached()
	daemon.Kill()
	job.Kill()
	daemon.Launch()
	daemon.Empty()
}

// TestWarmEnds: what a pre-restore has made ready ends with phosd, however that ends, and the next
// restore does without it.
func TestWarmEnds(t *testing.T) {
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			daemon := start(t)
			job := counting(t, daemon, "1500", "2000", "20000").Start()
			job.WaitLines(5)
			job.Dump()
			job.Cli("--pre-restore", "--dir", job.Image)
			workers := workersOf(t, daemon)
			if len(workers) != 1 {
				t.Errorf("the workers %v stand ready", workers)
			}
			die(t, daemon)
			daemon.Eventually("the worker ends", func() bool {
				for _, pid := range workers {
					if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
						return false
					}
				}
				return true
			})
			daemon.Launch()
			daemon.Empty()
			job.Restore()
			if got := job.Finish(); got != counted {
				t.Errorf("the program ends with %d: %s", got, job.Stderr())
			}
			daemon.Empty()
		})
	}
}

// workersOf are the workers of a phosd's sessions, by the session directory that stands in their
// command line.
func workersOf(t *testing.T, daemon *harness.Daemon) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path) // it may have ended
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil &&
			strings.Contains(string(line), daemon.Dir+"/sessions/") {
			pids = append(pids, pid)
		}
	}
	return pids
}
