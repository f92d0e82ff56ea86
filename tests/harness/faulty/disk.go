package faulty

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/phos-gpu/phos/tests/harness"
)

// Operation is an operation on a file system.
type Operation string

// The operations that can fail.
const (
	Open   Operation = "open"
	Create Operation = "create"
	Read   Operation = "read"
	Write  Operation = "write"
	Sync   Operation = "sync"
	Mkdir  Operation = "mkdir"
	Rename Operation = "rename"
	Remove Operation = "remove"
	List   Operation = "list"
)

// Disk is a file system that belongs to one test.
type Disk struct {
	// Path is the mount point. Backing is the directory that receives all operations.
	Path, Backing string

	mu    sync.Mutex
	count map[Operation]int
	// fails is the operation that fails once after has been counted down to zero; times is how many
	// times it fails.
	fails        Operation
	after, times int
	failed       int
	// hangs is the operation that blocks until Continue. hung counts the blocked calls.
	hangs Operation
	letGo chan struct{}
	hung  int
}

// Mount mounts a Disk until the test ends. It skips the test if FUSE is not available.
func Mount(t testing.TB) *Disk {
	t.Helper()
	harness.Need(t, "fuse", usable())
	root := t.TempDir()
	d := &Disk{Path: filepath.Join(root, "disk"), Backing: filepath.Join(root, "behind"), count: make(map[Operation]int)}
	for _, dir := range []string{d.Path, d.Backing} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(d.Backing, &stat); err != nil {
		t.Fatal(err)
	}
	data := &fs.LoopbackRoot{Path: d.Backing, Dev: stat.Dev}
	data.NewNode = func(data *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return d.node(data)
	}
	data.RootNode = d.node(data)
	none := time.Duration(0)
	_, err := fs.Mount(d.Path, data.RootNode, &fs.Options{
		AttrTimeout: &none, EntryTimeout: &none,
		MountOptions: fuse.MountOptions{AllowOther: true, DirectMountStrict: true, FsName: "phos-faulty", Name: "faulty"},
	})
	if err != nil {
		harness.Need(t, "fuse", err)
	}
	closeOnExec()
	t.Cleanup(func() {
		d.Continue()
		// Do not wait for the server. If another mount namespace has a copy of the mount, the
		// server runs as long as this process.
		_ = syscall.Unmount(d.Path, syscall.MNT_DETACH)
	})
	return d
}

// usable returns an error if FUSE is not available.
func usable() error {
	file, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), harness.Root())
}

// closeOnExec keeps child processes from inheriting the connections with the kernel.
func closeOnExec() {
	all, _ := filepath.Glob("/proc/self/fd/*")
	for _, each := range all {
		if leads, err := os.Readlink(each); err != nil || leads != "/dev/fuse" {
			continue
		}
		if fd, err := strconv.Atoi(filepath.Base(each)); err == nil {
			syscall.CloseOnExec(fd)
		}
	}
}

// Counted returns how many times an operation was requested since the last Fail, Hang or Repair.
func (d *Disk) Counted(what Operation) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count[what]
}

// Forever is a number of failures that no test reaches.
const Forever = 1 << 30

// Fail makes an operation fail with an input/output error, from its nth request on and as often as
// times says.
func (d *Disk) Fail(what Operation, nth, times int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count = make(map[Operation]int)
	d.fails, d.after, d.times, d.failed = what, nth, times, 0
}

// Repair ends what Fail began and returns the number of failures.
func (d *Disk) Repair() (failed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count = make(map[Operation]int)
	d.fails = ""
	return d.failed
}

// Hang blocks an operation from its nth request on, until Continue. The call blocks even if its
// caller is killed.
func (d *Disk) Hang(what Operation, nth int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count = make(map[Operation]int)
	d.hangs, d.after, d.letGo, d.hung = what, nth, make(chan struct{}), 0
}

// Hanging returns the number of blocked calls.
func (d *Disk) Hanging() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hung
}

// Continue ends what Hang began.
func (d *Disk) Continue() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.letGo != nil {
		close(d.letGo)
	}
	d.hangs, d.letGo = "", nil
}

// before is called before every operation.
func (d *Disk) before(what Operation) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[what]++
	if d.hangs == what && d.count[what] >= d.after {
		wait := d.letGo
		d.hung++
		d.mu.Unlock()
		<-wait
		d.mu.Lock()
		d.hung--
		return 0
	}
	if d.fails == what && d.count[what] >= d.after && d.failed < d.times {
		d.failed++
		return syscall.EIO
	}
	return 0
}
