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

// waysToEnd are the ways in which phosd is stopped.
var waysToEnd = map[string]func(*testing.T, *harness.Daemon){
	"killed": func(_ *testing.T, daemon *harness.Daemon) { daemon.Kill() },
	"ended": func(t *testing.T, daemon *harness.Daemon) {
		if err := syscall.Kill(daemon.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		daemon.Await()
	},
}

// TestAdopted: a restored program survives the exit of phosd. The next phosd knows the program and
// its image, saves it, and notices its exit.
func TestAdopted(t *testing.T) {
	for name, die := range waysToEnd {
		t.Run(name, func(t *testing.T) {
			daemon := start(t)
			job := countingJob(t, daemon, "1500", "2000", "20000").Start()
			job.WaitLines(5)
			job.Dump()
			job.RestoreDetached()
			before := programOf(daemon, job)
			die(t, daemon)
			job.WaitLines(job.Lines() + 3)
			daemon.Launch()
			daemon.LogContains("restored tree adopted")
			after := programOf(daemon, job)
			if after.GetSession() != before.GetSession() || after.GetCheckpointDir() != job.Image ||
				after.GetLastCheckpointUnixMilliseconds() != before.GetLastCheckpointUnixMilliseconds() ||
				before.GetCheckpointGeneration() != 1 {
				t.Errorf("before %v, after %v", before, after)
			}
			job.PreDump()
			if got := programOf(daemon, job).GetCheckpointGeneration(); got != 2 {
				t.Errorf("got generation %d as the newest", got)
			}
			die(t, daemon)
			daemon.Launch()
			job.Kill()
			daemon.Empty()
			job.Restore() // from the checkpoint of the adopted program
			if got := job.Finish(); got != countedStatus {
				t.Errorf("program exited with %d: %s", got, job.Stderr())
			}
			daemon.Empty()
		})
	}
}

// TestExitWithoutDaemon: a restored program exits while no phosd runs. Nothing is left behind for
// the next phosd.
func TestExitWithoutDaemon(t *testing.T) {
	daemon := start(t)
	job := countingJob(t, daemon, "1500", "2000", "20000").Start()
	job.WaitLines(5)
	job.Dump()
	job.RestoreDetached()
	daemon.Kill()
	job.Kill()
	daemon.Launch()
	daemon.Empty()
}

// TestPreparedEnds: a prepared image ends with phosd, however phosd is stopped. The next restore
// works without it.
func TestPreparedEnds(t *testing.T) {
	for name, die := range waysToEnd {
		t.Run(name, func(t *testing.T) {
			daemon := start(t)
			job := countingJob(t, daemon, "1500", "2000", "20000").Start()
			job.WaitLines(5)
			job.Dump()
			job.Cli("--pre-restore", "--dir", job.Image)
			workers := workersOf(t, daemon)
			if len(workers) != 1 {
				t.Errorf("got workers %v in the prepared image", workers)
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
			if got := job.Finish(); got != countedStatus {
				t.Errorf("program exited with %d: %s", got, job.Stderr())
			}
			daemon.Empty()
		})
	}
}

// workersOf returns the workers of a phosd's sessions, found by the session directory in their
// command line.
func workersOf(t *testing.T, daemon *harness.Daemon) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path) // the process may have exited
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil &&
			strings.Contains(string(line), daemon.Dir+"/sessions/") {
			pids = append(pids, pid)
		}
	}
	return pids
}
