package inspect

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// locksFiles holds a read lock on each of the files and a write lock on a part of the first one.
const locksFiles = `
import fcntl, sys, time
files = [open(path, 'r+') for path in sys.argv[1:]]
for file in files: fcntl.lockf(file, fcntl.LOCK_SH, 10, 0)
fcntl.lockf(files[0], fcntl.LOCK_EX, 1, 100)
print('ready', flush=True)
time.sleep(1000)
`

// locksOf returns the locks that an inspection finds on files of a process, by path.
func locksOf(t *testing.T, paths ...string) map[string]string {
	t.Helper()
	for _, path := range paths {
		if err := os.WriteFile(path, []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("/usr/bin/python3", append([]string{"-c", locksFiles}, paths...)...)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	id, err := proc.Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	findings, err := Inspect(t.Context(), id, Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, file := range findings.Written {
		found[file.Path] = file.Lock
	}
	return found
}

// TestLocks: an inspection finds the strongest lock on each file.
func TestLocks(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	if got := locksOf(t, first, second); got[first] != "write" || got[second] != "read" {
		t.Errorf("got %v, want write and read", got)
	}
}

// TestLocksOnOverlay: an inspection finds locks also on a file system on which stat(2) returns
// another device number than /proc/locks has.
func TestLocksOnOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts file systems")
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "merged")
	mountAt(t, dir, "tmpfs", "")
	for _, name := range []string{"lower", "upper", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	upper := filepath.Join(dir, "upper")
	mountAt(t, upper, "tmpfs", "") // layers of two file systems have device numbers of their own
	err := errors.Join(os.Mkdir(filepath.Join(upper, "files"), 0o755), os.Mkdir(filepath.Join(upper, "work"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	mountAt(t, at, "overlay", "xino=off,lowerdir="+dir+"/lower,upperdir="+upper+"/files,workdir="+upper+"/work")
	path := filepath.Join(at, "database")
	got := locksOf(t, path)
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		t.Fatal(err)
	}
	mounts, err := proc.Mounts(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range mounts {
		if device == stat.Dev {
			t.Fatalf("stat(2) returns device %#x, which is mounted: the test shows nothing", stat.Dev)
		}
	}
	if got[path] != "write" {
		t.Errorf("got lock %q, want write", got[path])
	}
}

// mountAt mounts a file system until the end of the test.
func mountAt(t *testing.T, at, kind, options string) {
	t.Helper()
	if err := unix.Mount("phos-test", at, kind, 0, options); err != nil {
		t.Fatalf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}
