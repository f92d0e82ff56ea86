package policy

import (
	"fmt"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// countedStatus is the exit status of count.c.
const countedStatus = 7

// countingJob prepares a program that counts on its GPU and checks itself. It sleeps between steps,
// and runs until Finish.
func countingJob(t *testing.T, daemon *harness.Daemon, arguments ...string) *harness.Job {
	t.Helper()
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	job := daemon.Job(t, program, arguments...)
	job.Hold = true
	return job
}

// start starts a phosd that can save programs.
func start(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	return harness.Start(t, arguments...)
}

// smallDisk returns a directory with space for the given number of bytes.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("phos-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		harness.Need(t, "root", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func itoa(n int) string { return strconv.Itoa(n) }
