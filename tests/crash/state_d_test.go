package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/faulty"
)

// last is the last operation of a commit, which can no longer be cancelled.
var last = []faulty.Operation{faulty.Create, faulty.Sync, faulty.Rename}

// TestDiskHangs: the image's disk hangs at some operation of a checkpoint. The program continues,
// phosd answers, and the caller can leave. After the disk responds again, nothing of the checkpoint
// is left.
func TestDiskHangs(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	r.job.PreDump()
	operations := map[faulty.Operation][]int{
		faulty.Write: {1, 3, 20}, faulty.Sync: {1}, faulty.Rename: {2}, faulty.Open: {2}, faulty.List: {2},
	}
	if full() {
		operations = map[faulty.Operation][]int{
			faulty.Write: {
				1,
				2,
				3,
				5,
				10,
				20,
				30,
			}, faulty.Sync: {1, 2, 3, 4}, faulty.Rename: {1, 2}, faulty.Open: {1, 2, 4, 6},
			faulty.List: {1, 2, 5, 8}, faulty.Create: {1, 2, 3}, faulty.Read: {1, 5, 20},
		}
	}
	for what, all := range operations {
		for _, nth := range all {
			t.Run(fmt.Sprintf("%s/%d", what, nth), func(t *testing.T) {
				r := r.forSubtest(t)
				before := r.onBacking(disk).snapshot()
				command, ended := r.startHanging(disk, what, nth, "--pre-dump", "--pid", fmt.Sprint(r.job.PID))
				defer disk.Continue()
				r.stillRuns()
				r.interruptHung(disk, command, ended)
				disk.Continue()
				r.stillRuns()
				r.clean()
				backing := r.onBacking(disk)
				if after := backing.snapshot(); len(after.generations) > len(before.generations) &&
					slices.Contains(last, what) {
					backing.oneGenerationMore(before) // the commit was done when the disk hung
				} else {
					backing.unchanged(before, false)
				}
				r.job.PreDump()
				r.onBacking(disk).verified()
			})
			if t.Failed() {
				return
			}
		}
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// interruptHung interrupts the command while the disk hangs.
func (r *fixture) interruptHung(disk *faulty.Disk, command *exec.Cmd, ended <-chan error) {
	r.t.Helper()
	r.eventually(func() string {
		if len(ended) == 0 {
			_ = command.Process.Signal(os.Interrupt) // again, because two signals at once count as one
			if waitsInKernel(command.Process.Pid) {
				disk.Continue() // pos_cli itself is blocked in the kernel and cannot be interrupted
			}
			return "pos_cli stays"
		}
		return ""
	})
	if err := <-ended; err == nil {
		r.t.Error("command succeeded, want failure")
	}
}

// waitsInKernel reports whether a thread of a process is blocked on the disk.
func waitsInKernel(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	for _, thread := range threads {
		if where, _ := os.ReadFile(thread); strings.Contains(string(where), "fuse") ||
			strings.Contains(string(where), "request_wait") {
			return true
		}
	}
	return false
}

// startHanging starts a command on a disk that hangs, and checks that phosd does not hang. If the
// machine is too slow to reach the operation in time, it tries again with more time.
func (r *fixture) startHanging(
	disk *faulty.Disk,
	what faulty.Operation,
	nth int,
	arguments ...string,
) (command *exec.Cmd, ended <-chan error) {
	r.t.Helper()
	for deadline := 2 * time.Second; ; deadline *= 5 {
		flags := []string{"--dir", r.job.Image}
		if arguments[0] != "--restore" {
			flags = append(flags, "--idle-time", deadline.String())
		}
		disk.Hang(what, nth)
		command = r.daemon.Command(slices.Concat(arguments, flags)...)
		var output bytes.Buffer
		command.Stdout, command.Stderr = &output, &output
		if err := command.Start(); err != nil {
			r.t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() {
			err := command.Wait()
			r.t.Log(strings.TrimSpace(output.String()))
			end <- err
		}()
		r.eventually(func() string {
			if disk.Hanging() == 0 && len(end) == 0 {
				return "nothing waits for the disk"
			}
			return ""
		})
		r.daemon.Status()
		if disk.Hanging() > 0 {
			return command, end
		}
		if text := output.String(); deadline > harness.Patience ||
			!strings.Contains(text, "--idle-time gives it more time") {
			r.t.Fatalf("command ended before the disk hung: %s", text)
		}
	}
}

// TestRestoreWhileDiskHangs: reads of the image hang, from any operation of a restore on. The
// caller can leave, and no process is left.
func TestRestoreWhileDiskHangs(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	r.job.Dump()
	r.cleanWith(0, 0)
	operations := map[faulty.Operation][]int{faulty.Read: {20, 50}, faulty.Open: {4}}
	if full() {
		operations = map[faulty.Operation][]int{
			faulty.Read: {15, 20, 30, 40, 50, 60},
			faulty.Open: {3, 4, 5, 6},
			faulty.List: {4, 5},
		}
	}
	for what, all := range operations {
		for _, nth := range all {
			t.Run(fmt.Sprintf("%s/%d", what, nth), func(t *testing.T) {
				r := r.forSubtest(t)
				command, ended := r.startHanging(disk, what, nth, "--restore", "--eager", "--detach")
				defer disk.Continue()
				r.interruptHung(disk, command, ended)
				disk.Continue()
				r.cleanWith(0, 0)
			})
			if t.Failed() {
				return
			}
		}
	}
	r.restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestStopWhileDiskHangs: phosd can be stopped while its disk hangs. Its process ends when the
// kernel releases it; programs continue, and the next phosd adopts them.
func TestStopWhileDiskHangs(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	r.job.PreDump()
	before := r.onBacking(disk).snapshot()
	_, ended := r.startHanging(disk, faulty.Sync, 1, "--pre-dump", "--pid", fmt.Sprint(r.job.PID))
	defer disk.Continue()
	r.stillRuns()
	if err := syscall.Kill(r.daemon.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.await(ended); err == nil {
		t.Error("checkpoint succeeded, want failure")
	}
	r.eventually(func() string {
		if _, err := os.Lstat(r.daemon.Socket); err == nil {
			return "phosd still has its socket"
		}
		return ""
	})
	r.stillRuns()
	disk.Continue()
	r.daemon.Await()
	r.daemon.Launch()
	r.clean()
	r.onBacking(disk).unchanged(before, true)
	r.job.PreDump()
	r.onBacking(disk).verified()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestDumpWhileDiskHangs: a checkpoint that ends its program hangs, so the program is frozen. It
// continues when the user cancels, even while the disk still hangs.
func TestDumpWhileDiskHangs(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	r.job.PreDump()
	for _, at := range []struct {
		what faulty.Operation
		nth  int
	}{{faulty.Write, 3}, {faulty.Write, 20}, {faulty.Write, 30}, {faulty.Sync, 1}} {
		// After these operations the manifest is written, and the commit cannot be cancelled.
		t.Run(fmt.Sprintf("%s/%d", at.what, at.nth), func(t *testing.T) {
			r := r.forSubtest(t)
			before := r.onBacking(disk).snapshot()
			command, ended := r.startHanging(disk, at.what, at.nth, "--dump", "--pid", fmt.Sprint(r.job.PID))
			defer disk.Continue()
			r.interruptHung(disk, command, ended)
			r.stillRuns()
			disk.Continue()
			r.clean()
			r.onBacking(disk).unchanged(before, false)
		})
		if t.Failed() {
			break
		}
	}
	disk.Continue()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}
