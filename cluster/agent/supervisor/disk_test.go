package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/faulty"
)

// TestHungDisk: nothing that kills waits for the disk of the run directory, and the end is told
// without it.
func TestHungDisk(t *testing.T) {
	for name, fenced := range map[string]bool{"killed": false, "fenced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			f := newFixture(t, "trap '' TERM; echo ready; while :; do echo more; done")
			disk := faulty.Mount(t)
			f.root = disk.Path
			if fenced {
				f.startToBeFenced(func() (inTime bool) {
					disk.Hang(faulty.Write, 1)
					if inTime = boottime.Now() < f.spec.Deadline; !inTime {
						disk.Continue()
					}
					return inTime
				})
			} else {
				f.start()
				f.started()
				disk.Hang(faulty.Write, 1)
				if err := f.Kill(f.patient()); err != nil {
					t.Fatal(err)
				}
			}
			f.eventually("all are killed", func() bool { return len(f.marked()) == 0 })
			status, err := f.Wait(f.patient())
			if want := map[bool]Reason{false: Killed, true: Fenced}[fenced]; err != nil || status.Reason != want {
				t.Errorf("while the disk hangs: %+v, %v", status, err)
			}
			disk.Continue()
			f.eventually("the end is recorded", func() bool {
				var recorded Status
				return readJSON(f.Directory(), statusName, &recorded) == nil && recorded.State == Ended
			})
			f.eventually("the supervisor exits", status.Supervisor.Gone)
		})
	}
}

// TestFailingDisk: the end is recorded when a disk works again that has failed.
func TestFailingDisk(t *testing.T) {
	f := newFixture(t, "echo ready; exit 4")
	disk := faulty.Mount(t)
	f.root = disk.Path
	disk.Fail(faulty.Rename, 3, faulty.Forever)
	f.start()
	status, err := f.Wait(f.patient())
	if err != nil || status.Reason != Failed {
		t.Errorf("%+v, %v", status, err)
	}
	if failed := disk.Repair(); failed == 0 {
		t.Error("nothing has failed")
	}
	f.expect(f.end(), Failed, "ended with status 4")
}

// TestFullDisk: an attempt can be killed while its run directory takes no more data, and the end is
// recorded when it does.
func TestFullDisk(t *testing.T) {
	f := newFixture(t, "echo ready; while :; do echo more and more and more; done")
	f.Cleanup(func() { _ = unix.Unmount(f.root, unix.MNT_DETACH) })
	if err := unix.Mount("tmpfs", f.root, "tmpfs", 0, "size=2m"); err != nil {
		harness.Need(t, "mount", err)
	}
	f.spec.Log = linelog.Limits{TotalBytes: 1 << 20}
	f.start()
	filler := filepath.Join(f.root, "filler")
	f.eventually("the disk is full", func() bool { return fill(filler) })
	if err := f.Kill(f.patient()); err != nil {
		t.Fatal(err)
	}
	f.eventually("all are killed", func() bool { return len(f.marked()) == 0 })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	f.expect(f.end(), Killed, killed+", stopped")
}

// fill appends to a file until the disk is full.
func fill(path string) bool {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Is(err, unix.ENOSPC)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	return errors.Is(err, unix.ENOSPC)
}
