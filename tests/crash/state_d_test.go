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

// last is what a commit still asks of a disk when it can no longer be given up.
var last = []faulty.Operation{faulty.Create, faulty.Sync, faulty.Rename}

// TestDiskHangs: the disk of an image stops answering for a while, at any moment. The program runs
// on, phosd answers, the caller of the checkpoint can leave, and when the disk answers again
// nothing of the checkpoint is left.
func TestDiskHangs(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	r.job.PreDump()
	moments := map[faulty.Operation][]int{
		faulty.Write: {1, 3, 20}, faulty.Sync: {1}, faulty.Rename: {2}, faulty.Open: {2}, faulty.List: {2},
	}
	if full() {
		moments = map[faulty.Operation][]int{
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
	for what, all := range moments {
		for _, nth := range all {
			t.Run(fmt.Sprintf("%s/%d", what, nth), func(t *testing.T) {
				r := r.in(t)
				before := r.behind(disk).snapshot()
				command, ended := r.hangs(disk, what, nth, "--pre-dump", "--pid", fmt.Sprint(r.job.PID))
				defer disk.LetGo()
				r.runsOn()
				r.walksAway(disk, command, ended)
				disk.LetGo()
				r.runsOn()
				r.alone()
				behind := r.behind(disk)
				if after := behind.snapshot(); len(after.generations) > len(before.generations) &&
					slices.Contains(last, what) {
					behind.grown(before) // it had come to its end when the disk hung
				} else {
					behind.unchanged(before, false)
				}
				r.job.PreDump()
				r.behind(disk).verified()
			})
			if t.Failed() {
				return
			}
		}
	}
	r.ends()
	r.tidy(0, 0)
}

// walksAway interrupts the command.
func (r *room) walksAway(disk *faulty.Disk, command *exec.Cmd, ended <-chan error) {
	r.t.Helper()
	r.eventually(func() string {
		if len(ended) == 0 {
			_ = command.Process.Signal(os.Interrupt) // again, for two at once are one
			if waitsInKernel(command.Process.Pid) {
				disk.LetGo() // it is pos_cli itself that waits, which nothing can end
			}
			return "pos_cli stays"
		}
		return ""
	})
	if err := <-ended; err == nil {
		r.t.Error("it succeeds")
	}
}

// waitsInKernel reports whether a thread of a process waits for an answer of the disk.
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

// hangs begins something with a disk that stops to answer. phosd does not. What the machine is too
// slow for has more time the next time.
func (r *room) hangs(
	disk *faulty.Disk,
	what faulty.Operation,
	nth int,
	arguments ...string,
) (command *exec.Cmd, ended <-chan error) {
	r.t.Helper()
	for deadline := 2 * time.Second; ; deadline *= 5 {
		flags := []string{"--dir", r.job.Image}
		if arguments[0] != "--restore" {
			flags = append(flags, "--deadline", deadline.String())
		}
		disk.Hang(what, nth)
		command = r.daemon.Command(slices.Concat(arguments, flags)...)
		var said bytes.Buffer
		command.Stdout, command.Stderr = &said, &said
		if err := command.Start(); err != nil {
			r.t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() {
			err := command.Wait()
			r.t.Log(strings.TrimSpace(said.String()))
			end <- err
		}()
		r.eventually(func() string {
			if disk.Hung() == 0 && len(end) == 0 {
				return "nothing waits for the disk"
			}
			return ""
		})
		r.daemon.Status()
		if disk.Hung() > 0 {
			return command, end
		}
		if text := said.String(); deadline > harness.Patience ||
			!strings.Contains(text, "--deadline gives it more time") {
			r.t.Fatalf("it ends before the disk hangs: %s", text)
		}
	}
}

// TestRestoreWhileDiskHangs: an image cannot be read for a while, from any moment of a restore on.
// The caller can leave; no process is left.
func TestRestoreWhileDiskHangs(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	r.job.Dump()
	r.tidy(0, 0)
	moments := map[faulty.Operation][]int{faulty.Read: {20, 50}, faulty.Open: {4}}
	if full() {
		moments = map[faulty.Operation][]int{
			faulty.Read: {15, 20, 30, 40, 50, 60},
			faulty.Open: {3, 4, 5, 6},
			faulty.List: {4, 5},
		}
	}
	for what, all := range moments {
		for _, nth := range all {
			t.Run(fmt.Sprintf("%s/%d", what, nth), func(t *testing.T) {
				r := r.in(t)
				command, ended := r.hangs(disk, what, nth, "--restore", "--eager", "--detach")
				defer disk.LetGo()
				r.walksAway(disk, command, ended)
				disk.LetGo()
				r.tidy(0, 0)
			})
			if t.Failed() {
				return
			}
		}
	}
	r.restore()
	r.ends()
	r.tidy(0, 0)
}

// TestStopWhileDiskHangs: phosd can be told to end although its disk does not answer. Its process
// is gone when the kernel lets it; programs run on, and the next phosd takes them over.
func TestStopWhileDiskHangs(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	r.job.PreDump()
	before := r.behind(disk).snapshot()
	_, ended := r.hangs(disk, faulty.Sync, 1, "--pre-dump", "--pid", fmt.Sprint(r.job.PID))
	defer disk.LetGo()
	r.runsOn()
	if err := syscall.Kill(r.daemon.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.await(ended); err == nil {
		t.Error("the checkpoint succeeds")
	}
	r.eventually(func() string {
		if _, err := os.Lstat(r.daemon.Socket); err == nil {
			return "phosd still has its socket"
		}
		return ""
	})
	r.runsOn()
	disk.LetGo()
	r.daemon.Await()
	r.daemon.Launch()
	r.alone()
	r.behind(disk).unchanged(before, true)
	r.job.PreDump()
	r.behind(disk).verified()
	r.ends()
	r.tidy(0, 0)
}

// TestDumpWhileDiskHangs: a program that is to end once its image is written stands still while
// that is tried, and runs on when the user gives up, although the disk does not answer yet.
func TestDumpWhileDiskHangs(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	r.job.PreDump()
	for _, moment := range []struct {
		what faulty.Operation
		nth  int
	}{{faulty.Write, 3}, {faulty.Write, 20}, {faulty.Write, 30}, {faulty.Sync, 1}} { // once the manifest is on its way, it is too late
		t.Run(fmt.Sprintf("%s/%d", moment.what, moment.nth), func(t *testing.T) {
			r := r.in(t)
			before := r.behind(disk).snapshot()
			command, ended := r.hangs(disk, moment.what, moment.nth, "--dump", "--pid", fmt.Sprint(r.job.PID))
			defer disk.LetGo()
			r.walksAway(disk, command, ended)
			r.runsOn()
			disk.LetGo()
			r.alone()
			r.behind(disk).unchanged(before, false)
		})
		if t.Failed() {
			break
		}
	}
	disk.LetGo()
	r.ends()
	r.tidy(0, 0)
}
