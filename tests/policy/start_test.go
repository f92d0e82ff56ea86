package policy

import (
	"fmt"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// counted is the exit status of count.c.
const counted = 7

// counting prepares a program that counts on its GPU and checks itself. It rests between steps, and
// lives, until Finish.
func counting(t *testing.T, daemon *harness.Daemon, arguments ...string) *harness.Job {
	t.Helper()
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	job := daemon.Job(t, program, arguments...)
	job.Hold = true
	return job
}

// start is a phosd that can save processes.
func start(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	return harness.Start(t, arguments...)
}

// smallDisk is a directory with room for so many bytes.
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
