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

// disk is a tmpfs that holds the job's image.
type disk struct {
	t    testing.TB
	path string
}

// onDisk mounts a tmpfs and puts the job's image there.
func (r *fixture) onDisk(options string) *disk {
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

// remount changes flags and options of the mount.
func (d *disk) remount(flags uintptr, options string) {
	d.t.Helper()
	if err := unix.Mount("", d.path, "", unix.MS_REMOUNT|flags, options); err != nil {
		d.t.Fatal(err)
	}
}

// used returns how many KiB of the disk are in use.
func (d *disk) used() int {
	d.t.Helper()
	var at unix.Statfs_t
	if err := unix.Statfs(d.path, &at); err != nil {
		d.t.Fatal(err)
	}
	return int((at.Blocks - at.Bfree) * uint64(at.Bsize) >> 10)
}

// TestDiskFull: the disk has too little space for an image, or for the next generation. The
// shortage shows at different steps.
func TestDiskFull(t *testing.T) {
	r := newFixture(t)
	roomy := r.onDisk("size=64m")
	r.job.PreDump()
	first := roomy.used()
	r.job.PreDump()
	second := roomy.used() - first
	for _, tenths := range []int{0, 1, 3, 5, 7, 9} {
		t.Run(fmt.Sprintf("%d tenths", tenths), func(t *testing.T) {
			r := r.forSubtest(t)
			d := r.onDisk(fmt.Sprintf("size=%dk", max(first*tenths/10, 4)))
			r.hasNoRoom(d)
			d.remount(0, "size=64m")
			r.job.PreDump()
			r.verified()
			before := r.snapshot()
			d.remount(0, fmt.Sprintf("size=%dk", d.used()+second*tenths/10))
			if text, err := r.tryCheckpoint(false); err == nil {
				t.Errorf("second checkpoint succeeded, want failure: %s", text)
			}
			r.unchanged(before, false)
			r.verified()
			r.stillRuns()
		})
	}
	for files := range tooFewFiles {
		t.Run(fmt.Sprintf("%d files", files), func(t *testing.T) {
			r := r.forSubtest(t)
			r.hasNoRoom(r.onDisk(fmt.Sprintf("nr_inodes=%d", files+2)))
		})
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// tooFewFiles is one less than the minimum of files and directories in an image: its own ones, two
// packs and a generation.
const tooFewFiles = 8

// hasNoRoom checks that a checkpoint fails because the disk is full, and names the path.
func (r *fixture) hasNoRoom(d *disk) {
	r.t.Helper()
	text, err := r.tryCheckpoint(false)
	if err == nil || !strings.Contains(text, "no space left on device") || !strings.Contains(text, d.path) {
		r.t.Errorf("%v: %q", err, text)
	}
	r.stillRuns()
	r.clean()
	if left, _ := os.ReadDir(d.path); len(left) > 0 {
		inside, _ := filepath.Glob(d.path + "/image/*")
		r.t.Errorf("left behind: %v: %v", left, inside)
	}
}

// TestDirectoryFails: the directory is removed or becomes read-only during a checkpoint.
func TestDirectoryFails(t *testing.T) {
	late := []string{"precopy", "cut", "write", "commit"}
	for _, test := range []struct {
		name  string
		steps []string
		fail  func(r *fixture, d *disk)
		heal  func(d *disk)
	}{
		// Later, files are open for writing, and the kernel refuses to remount read-only.
		{
			"read-only",
			[]string{"inspect", "begin"},
			func(_ *fixture, d *disk) { d.remount(unix.MS_RDONLY, "") },
			func(d *disk) { d.remount(0, "") },
		},
		{"removed", late, func(r *fixture, _ *disk) {
			if err := os.RemoveAll(r.job.Image); err != nil {
				r.t.Error(err)
			}
		}, func(*disk) {}},
		{"packs removed", late, func(r *fixture, _ *disk) {
			if err := os.RemoveAll(r.job.Image + "/packs"); err != nil {
				r.t.Error(err)
			}
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newFixture(t)
			for _, step := range sample(test.steps, len(test.name)) {
				t.Run(step, func(t *testing.T) {
					r := r.forSubtest(t)
					d := r.onDisk("")
					r.job.PreDump()
					resume := r.pauseAt(step)
					from := r.logSize()
					done := make(chan error, 1)
					go func() {
						_, err := r.tryCheckpoint(false)
						done <- err
					}()
					r.waitStep(from, step)
					test.fail(r, d)
					resume()
					// Files that were open before can still be written, but the commit must fail.
					if err := r.await(done); err == nil {
						t.Error("checkpoint succeeded, want failure")
					}
					r.stillRuns()
					r.clean()
					if test.heal == nil {
						return
					}
					test.heal(d)
					r.daemon.Relaunch()
					r.job.PreDump()
					r.verified()
				})
			}
			r.finishAndCompare()
			r.cleanWith(0, 0)
		})
	}
}

// TestLimits: phosd or a worker reaches its limit of open files or of file size.
func TestLimits(t *testing.T) {
	r := newFixture(t)
	r.job.PreDump()
	for _, test := range []struct {
		name, process string
		resource      int
		limit         uint64
	}{
		{"phosd, no more files", "", unix.RLIMIT_NOFILE, 0},
		{"phosd, three more files", "", unix.RLIMIT_NOFILE, 3},
		{"phosd, bytes of a file", "", unix.RLIMIT_FSIZE, 100_000},
		{"worker, bytes of a file", "phosd worker ", unix.RLIMIT_FSIZE, 100_000},
		{"worker, no more files", "phosd worker ", unix.RLIMIT_NOFILE, 0},
		{"worker, two more files", "phosd worker ", unix.RLIMIT_NOFILE, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := r.forSubtest(t)
			before := r.snapshot()
			pid := r.daemon.PID()
			if test.process != "" {
				pid = r.find(test.process)
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
			text, err := r.tryCheckpoint(false)
			if err == nil {
				t.Errorf("checkpoint succeeded, want failure: %s", text)
			}
			t.Log(text)
			if err := unix.Prlimit(pid, test.resource, &was, nil); err != nil {
				t.Fatalf("pid %d: %v\n%s", pid, err, r.log())
			}
			r.stillRuns()
			r.clean()
			r.unchanged(before, false)
			r.job.PreDump()
			r.verified()
		})
		if t.Failed() {
			return
		}
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// reserveEnds returns the lowest limit of open files that leaves a process its reserve: file
// descriptors of the root directory. They are for connections that arrive when no descriptor is
// free.
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
		t.Fatalf("pid %d has no reserve of file descriptors", pid)
	}
	return limit
}
