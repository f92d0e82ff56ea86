package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is a tmpfs that has the job's image.
type disk struct {
	t    testing.TB
	path string
}

func (r *room) onDisk(options string) *disk {
	r.t.Helper()
	d := &disk{r.t, filepath.Join(r.t.TempDir(), "disk")}
	if err := os.Mkdir(d.path, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := unix.Mount("phos-crash", d.path, "tmpfs", 0, options); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = unix.Unmount(d.path, unix.MNT_DETACH) })
	r.job.Image = filepath.Join(d.path, "image")
	return d
}

func (d *disk) remount(flags uintptr, options string) {
	d.t.Helper()
	if err := unix.Mount("", d.path, "", unix.MS_REMOUNT|flags, options); err != nil {
		d.t.Fatal(err)
	}
}

// used is how many KiB of the disk are taken.
func (d *disk) used() int {
	d.t.Helper()
	var at unix.Statfs_t
	if err := unix.Statfs(d.path, &at); err != nil {
		d.t.Fatal(err)
	}
	return int((at.Blocks - at.Bfree) * uint64(at.Bsize) >> 10)
}

// TestDiskFull: the disk has no room for an image, or for the next generation, wherever that shows.
func TestDiskFull(t *testing.T) {
	r := newRoom(t)
	roomy := r.onDisk("size=64m")
	r.job.PreDump()
	first := roomy.used()
	r.job.PreDump()
	second := roomy.used() - first
	for _, tenths := range []int{0, 1, 3, 5, 7, 9} {
		t.Run(fmt.Sprintf("%d tenths", tenths), func(t *testing.T) {
			r := r.in(t)
			d := r.onDisk(fmt.Sprintf("size=%dk", max(first*tenths/10, 4)))
			r.hasNoRoom(d)
			d.remount(0, "size=64m")
			r.job.PreDump()
			r.verified()
			before := r.snapshot()
			d.remount(0, fmt.Sprintf("size=%dk", d.used()+second*tenths/10))
			if text, err := r.save(false); err == nil {
				t.Errorf("the second checkpoint succeeds: %s", text)
			}
			r.unchanged(before, false)
			r.verified()
			r.runsOn()
		})
	}
	for files := range tooFewFiles {
		t.Run(fmt.Sprintf("%d files", files), func(t *testing.T) {
			r := r.in(t)
			r.hasNoRoom(r.onDisk(fmt.Sprintf("nr_inodes=%d", files+2)))
		})
	}
	r.ends()
	r.tidy(0, 0)
}

// tooFewFiles is how many files and directories an image has at least: its own ones, two packs and
// a generation.
const tooFewFiles = 8

// hasNoRoom insists that a checkpoint fails for want of room, and says where.
func (r *room) hasNoRoom(d *disk) {
	r.t.Helper()
	text, err := r.save(false)
	if err == nil || !strings.Contains(text, "no space left on device") || !strings.Contains(text, d.path) {
		r.t.Errorf("%v: %q", err, text)
	}
	r.runsOn()
	r.alone()
	if left, _ := os.ReadDir(d.path); len(left) > 0 {
		inside, _ := filepath.Glob(d.path + "/image/*")
		r.t.Errorf("left: %v: %v", left, inside)
	}
}

// TestDirectoryFails: the directory is removed or becomes read-only during a checkpoint.
func TestDirectoryFails(t *testing.T) {
	late := []string{"precopy", "cut", "write", "commit"}
	for _, test := range []struct {
		name  string
		steps []string
		fail  func(r *room, d *disk)
		heal  func(d *disk)
	}{
		// Later on, files are open for writing: the kernel does not let it become read-only.
		{"read-only", []string{"inspect", "begin"}, func(_ *room, d *disk) { d.remount(unix.MS_RDONLY, "") }, func(d *disk) { d.remount(0, "") }},
		{"removed", late, func(r *room, _ *disk) {
			if err := os.RemoveAll(r.job.Image); err != nil {
				r.t.Error(err)
			}
		}, func(*disk) {}},
		{"packs removed", late, func(r *room, _ *disk) {
			if err := os.RemoveAll(r.job.Image + "/packs"); err != nil {
				r.t.Error(err)
			}
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRoom(t)
			for _, step := range chosen(test.steps, len(test.name)) {
				t.Run(step, func(t *testing.T) {
					r := r.in(t)
					d := r.onDisk("")
					r.job.PreDump()
					goOn := r.heldUp(step)
					from := r.logged()
					done := make(chan error, 1)
					go func() {
						_, err := r.save(false)
						done <- err
					}()
					r.reaches(from, step)
					test.fail(r, d)
					goOn()
					// What was open before can still be written, but not be committed.
					if err := r.await(done); err == nil {
						t.Error("the checkpoint succeeds")
					}
					r.runsOn()
					r.alone()
					if test.heal == nil {
						return
					}
					test.heal(d)
					r.daemon.Relaunch()
					r.job.PreDump()
					r.verified()
				})
			}
			r.ends()
			r.tidy(0, 0)
		})
	}
}

// TestLimits: phosd or a worker reaches its limit of open files or of file size.
func TestLimits(t *testing.T) {
	r := newRoom(t)
	r.job.PreDump()
	for _, test := range []struct {
		name, who string
		resource  int
		limit     uint64
	}{
		{"phosd, no more files", "", unix.RLIMIT_NOFILE, 0},
		{"phosd, three more files", "", unix.RLIMIT_NOFILE, 3},
		{"phosd, bytes of a file", "", unix.RLIMIT_FSIZE, 100_000},
		{"worker, bytes of a file", "phosd worker ", unix.RLIMIT_FSIZE, 100_000},
		{"worker, no more files", "phosd worker ", unix.RLIMIT_NOFILE, 0},
		{"worker, two more files", "phosd worker ", unix.RLIMIT_NOFILE, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := r.in(t)
			before := r.snapshot()
			pid := r.daemon.PID()
			if test.who != "" {
				pid = r.find(test.who)
			}
			var was unix.Rlimit
			if err := unix.Prlimit(pid, test.resource, nil, &was); err != nil {
				t.Fatal(err)
			}
			limit := unix.Rlimit{Cur: test.limit, Max: was.Max}
			if test.resource == unix.RLIMIT_NOFILE {
				limit.Cur += reserveEnds(t, pid)
			}
			if err := unix.Prlimit(pid, test.resource, &limit, nil); err != nil {
				t.Fatal(err)
			}
			text, err := r.save(false)
			if err == nil {
				t.Errorf("the checkpoint succeeds: %s", text)
			}
			t.Log(text)
			if err := unix.Prlimit(pid, test.resource, &was, nil); err != nil {
				t.Fatalf("pid %d: %v\n%s", pid, err, r.log())
			}
			r.runsOn()
			r.alone()
			r.unchanged(before, false)
			r.job.PreDump()
			r.verified()
		})
		if t.Failed() {
			return
		}
	}
	r.ends()
	r.tidy(0, 0)
}

// reserveEnds is the lowest limit of open files that leaves a process its reserve for connections
// that arrive while nothing can be opened: file descriptors of the root directory.
func reserveEnds(t *testing.T, pid int) (limit uint64) {
	t.Helper()
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range open {
		number, err := strconv.ParseUint(filepath.Base(link), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if what, _ := os.Readlink(link); what == "/" {
			limit = max(limit, number+1)
		}
	}
	if limit == 0 {
		t.Fatalf("pid %d keeps nothing back", pid)
	}
	return limit
}
