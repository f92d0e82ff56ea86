package scenarios

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/tests/harness"
)

// exclusive skips the test if BPF programs cannot be loaded, or another phosd has loaded its own.
// node is an NVIDIA device without a driver: an open that the policy allows fails with a distinct
// error.
func exclusive(t *testing.T) (node string) {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	made, err := guard.Open(guard.Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		t.Skip(err)
	}
	node = filepath.Join(t.TempDir(), "nvidia200")
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(195, 200))); err != nil {
		t.Skip(err)
	}
	if err := canOpen(node); !errors.Is(err, unix.ENXIO) {
		t.Skip("this machine has an NVIDIA driver, or a phosd with gpus.exclusive:", err)
	}
	return node
}

func canOpen(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// TestExclusive: with gpus.exclusive only workers may open NVIDIA's devices, including workers of
// an earlier phosd. After phosd exits for any reason, all processes may open them again.
func TestExclusive(t *testing.T) {
	node := exclusive(t)
	d := start(t, "--gpus-exclusive=true")
	expect := func(when string, want error) {
		t.Helper()
		if err := canOpen(node); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	a := stepperCommand(t, program(d))
	expect("while phosd runs", unix.EPERM)
	d.LogContains("kept a process that is not phosd's from a GPU")
	a.step(2, 2)
	room := workerCgroup(t, d)
	dir := image(t)
	a.preDump(d, dir)
	a.step(1, 3)
	a.kill()
	a = restore(t, d, dir)
	a.step(1, 3)
	if got := workerCgroup(t, d); got != room {
		t.Errorf("after a restore the worker is in %s, want %s", got, room)
	}
	if got, err := cgroup.Of(a.pid); err != nil || strings.HasPrefix(got, room) {
		t.Errorf("the restored program is in %s, %v", got, err)
	}
	d.Kill()
	expect("after a crash", unix.ENXIO)
	a.step(1, 4)
	d.Launch()
	expect("with the next phosd", unix.EPERM)
	if got := workerCgroup(t, d); got == room {
		t.Errorf("the next phosd left the worker in %s", got)
	}
	a.step(1, 5)
	if err := syscall.Kill(d.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rooms := fmt.Sprintf("phos.gpus.*.%d.*", d.PID())
	d.Await()
	expect("after a stop", unix.ENXIO)
	if left, err := cgroup.Find(rooms); err != nil || len(left) != 0 {
		t.Errorf("left behind after a stop: %v, %v", left, err)
	}
	d.Launch()
	a.step(1, 6)
	a.finish(0)
	d.Empty()
}

// workerCgroup returns the cgroup of the only worker, in which devices may be opened.
func workerCgroup(t *testing.T, d *harness.Daemon) string {
	t.Helper()
	room, err := cgroup.Of(int(d.Status().GetPrograms()[0].GetWorkerPid()))
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.Open(room)
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	node := filepath.Join(t.TempDir(), "nvidia201")
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(195, 201))); err != nil {
		t.Fatal(err)
	}
	probe := exec.Command("dd", "if="+node, "count=0")
	probe.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(directory.Fd())}
	if said, _ := probe.CombinedOutput(); !strings.Contains(string(said), "No such device or address") {
		t.Errorf("in the worker's cgroup %s: unexpected %s", room, said)
	}
	return room
}
