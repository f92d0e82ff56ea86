package savedfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/bounded"
)

// Numbers of the FUSE protocol: linux/fuse.h.
const (
	fuseGetattr    = 3
	fuseInit       = 26
	fuseInitBytes  = 64
	fuseMinor      = 31
	fuseHeadBytes  = 16
	fuseBufferSize = 1 << 20
)

// deadFile returns the path of a file on a mount that does not respond, and the file, open for
// writing. stat(2) of it hangs until the test ends.
func deadFile(t *testing.T) (string, *os.File) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a file system")
	}
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	path := filepath.Join(t.TempDir(), "dead")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=100644,user_id=0,group_id=0,allow_other", device)
	if err := unix.Mount("phos-test", path, "fuse", 0, options); err != nil {
		_ = unix.Close(device)
		t.Skipf("no FUSE here: %v", err)
	}
	served := make(chan struct{})
	go func() { defer close(served); serveDead(device) }()
	t.Cleanup(func() {
		_ = unix.Unmount(path, unix.MNT_FORCE) // ends all requests
		_ = unix.Unmount(path, unix.MNT_DETACH)
		<-served
		_ = unix.Close(device)
	})
	// Not os.OpenFile: it would add the file to the runtime's epoll, where the kernel asks the server
	// while the runtime holds what the server's goroutine needs.
	number, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(number), path)
	t.Cleanup(func() { _ = file.Close() })
	return path, file
}

// serveDead serves a file system that never answers stat(2), and knows nothing else.
func serveDead(device int) {
	request := make([]byte, fuseBufferSize)
	for {
		n, err := unix.Read(device, request)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || n < fuseHeadBytes {
			return
		}
		reply := make([]byte, fuseHeadBytes)
		copy(reply[8:], request[8:16])
		switch binary.NativeEndian.Uint32(request[4:]) {
		case fuseGetattr:
			continue
		case fuseInit:
			reply = append(reply, make([]byte, fuseInitBytes)...)
			binary.NativeEndian.PutUint32(reply[16:], 7)
			binary.NativeEndian.PutUint32(reply[20:], fuseMinor)
			binary.NativeEndian.PutUint32(reply[36:], 4096) // max_write
		default:
			unknown := -int32(unix.ENOSYS)
			binary.NativeEndian.PutUint32(reply[4:], uint32(unknown))
		}
		binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
		_, _ = unix.Write(device, reply) // the request may have been interrupted
	}
}

// decideInTime decides, and fails the test if that hangs.
func (l *lab) decideInTime(o Options) []Decision {
	l.Helper()
	type result struct {
		decisions []Decision
		err       error
	}
	done := make(chan result, 1)
	go func() {
		decisions, err := Decide(&l.manifest, o)
		done <- result{decisions, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			l.Fatal(got.err)
		}
		return got.decisions
	case <-time.After(time.Minute):
		l.Fatal("the decision hangs")
	}
	return nil
}

// TestDeadMountOfOthers: a process that has a file open on a mount that does not respond delays no
// decision about other files.
func TestDeadMountOfOthers(t *testing.T) {
	_, dead := deadFile(t)
	l := newLab(t)
	l.save("f", "old\n", &image.FileCut{})
	l.write("f", "new\n")
	command := exec.Command("sleep", "1000")
	command.ExtraFiles = []*os.File{dead}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	l.writer("f", os.O_WRONLY)
	if got := l.decideInTime(Options{}); got[0].Action != ActionKeep {
		t.Errorf("got %+v, want that the writer is found", got[0])
	}
}

// TestDeadMount: a file on a mount that does not respond is refused by its name, and the files
// beside it are decided about.
func TestDeadMount(t *testing.T) {
	path, _ := deadFile(t)
	l := newLab(t)
	l.save("f", "old\n", &image.FileCut{})
	l.manifest.Files = append(l.manifest.Files, image.SavedFile{Path: path, Bytes: 3, Cut: &image.FileCut{}})
	for range 3 {
		got := l.decideInTime(Options{patience: 2 * time.Second})
		if got[0].Action != ActionRestore || got[1].Action != ActionRefuse || got[1].Change != Unknown ||
			!strings.Contains(got[1].Reason, "does not respond") {
			t.Errorf("got %+v", got)
		}
	}
	if got := bounded.Stuck(0); got != 1 {
		t.Errorf("got %d calls that hang, want one", got)
	}
}

// TestTooManyDead: while as many calls of the user hang as may, a file is refused by that limit,
// and not as if it did not respond itself.
func TestTooManyDead(t *testing.T) {
	l := newLab(t)
	path := l.save("f", "old\n", &image.FileCut{})
	hang := make(chan struct{})
	for i := range 100 {
		_, _ = bounded.Call(bounded.Question{Of: i}, time.Microsecond, func() bool { <-hang; return true })
	}
	got := l.decideInTime(Options{})
	if got[0].Path != path || got[0].Action != ActionRefuse || got[0].Change != Unknown ||
		!strings.Contains(got[0].Reason, "64 files and processes of user 0 do not respond, and phos waits for at most 64") {
		t.Errorf("got %+v, want the limit", got)
	}
	close(hang)
	for bounded.Stuck(0) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestWriterOnOverlay: a process that writes a file is found on a file system on which stat(2)
// returns another device number than /proc has, by its descriptor or by its mapping.
func TestWriterOnOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts file systems")
	}
	l := newLab(t)
	mount := func(at, kind, options string) {
		t.Helper()
		if err := unix.Mount("phos-test", at, kind, 0, options); err != nil {
			t.Fatalf("mount %s: %v", kind, err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	below, upper := t.TempDir(), t.TempDir()
	mount(below, "tmpfs", "")
	mount(upper, "tmpfs", "")
	for _, name := range []string{"files", "work"} {
		if err := os.Mkdir(filepath.Join(upper, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount(l.dir, "overlay", "xino=off,lowerdir="+below+",upperdir="+upper+"/files,workdir="+upper+"/work")
	for _, name := range []string{"f", "g", "h"} {
		l.save(name, "old\n", &image.FileCut{})
		l.write(name, "new\n")
	}
	l.writer("f", os.O_WRONLY)
	mapsFile(t, filepath.Join(l.dir, "g"))
	_, got := l.decide()
	if want := "modified, keep|modified, keep|modified, copy and restore"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// mapsFile starts a process that has a file mapped for writing, and not open.
func mapsFile(t *testing.T, path string) {
	t.Helper()
	command := exec.Command("/usr/bin/python3", "-c", `
import mmap, sys
with open(sys.argv[1], 'r+b') as file: area = mmap.mmap(file.fileno(), 0)
print('ready', flush=True)
sys.stdin.read()`, path)
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = command.Wait() })
	if said, err := out.Read(make([]byte, 6)); err != nil || said == 0 {
		t.Fatal(err)
	}
}

// TestMappedWrites: a file that was written through a mapping has changed, though its times are
// those of the checkpoint.
func TestMappedWrites(t *testing.T) {
	for _, test := range []struct {
		name, below string
		cut         image.FileCut
	}{
		{"in memory", "/dev/shm", image.FileCut{}},
		{"mapped by the program", t.TempDir(), image.FileCut{Mapped: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, err := os.MkdirTemp(test.below, "phos-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			l := &lab{T: t, dir: dir}
			path := l.save("f", strings.Repeat("old\n", 4), &test.cut)
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			area, err := unix.Mmap(int(file.Fd()), 0, 16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Munmap(area) }()
			copy(area, "old\n") // makes the page dirty
			var before, after unix.Stat_t
			if err := unix.Stat(path, &before); err != nil {
				t.Fatal(err)
			}
			saved := l.manifest.Files[0].Cut
			saved.Modified, saved.Changed = before.Mtim.Nano(), before.Ctim.Nano()
			copy(area, "new\n")
			if err := unix.Stat(path, &after); err != nil {
				t.Fatal(err)
			}
			if before.Mtim != after.Mtim || before.Ctim != after.Ctim {
				t.Log("the times have changed: the test shows nothing on this file system")
			}
			if got := l.decideInTime(Options{}); got[0].Change != Modified {
				t.Errorf("got %+v, want modified", got[0])
			}
			if text, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(text, []byte("new\n")) {
				t.Errorf("the file has %q, %v", text, err)
			}
		})
	}
}
