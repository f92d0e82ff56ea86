package scenarios

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// waiting finds the processes of a daemon's workers that wait.
func waiting(d *harness.Daemon) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, _ := os.ReadFile(path)
		if words := strings.Split(string(text), "\x00"); slices.Contains(words, "standby") &&
			strings.Contains(string(text), d.Dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// oneWaits waits until one worker does, and returns its pid.
func oneWaits(t *testing.T, d *harness.Daemon) (pid int) {
	t.Helper()
	d.Eventually("one worker waits", func() bool {
		status := d.Status()
		pids := waiting(d)
		// One that has got a session is called as it was, and may outlive it by a moment.
		for _, program := range status.GetPrograms() {
			pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == int(program.GetWorkerPid()) })
		}
		if status.GetDaemon().GetWaitingWorkers() != 1 || len(pids) != 1 {
			return false
		}
		pid = pids[0]
		return true
	})
	return pid
}

// rights are what a process may do, by the kernel's words.
func rights(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.Join(strings.Fields(value), " ")
	}
	return found
}

// mayAs holds what a process may against what it shall.
func mayAs(t *testing.T, pid int, want map[string]string) {
	t.Helper()
	got := rights(t, pid)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("pid %d has %s %q, want %q", pid, name, got[name], value)
		}
	}
}

const noRights = "0000000000000000"

// TestStandby: a standby worker belongs to no program, then serves a program of any user with that
// user's rights, whether it starts or is restored, and does not outlive phosd.
func TestStandby(t *testing.T) {
	const held = 64 << 20
	d := start(t, "--workers-warm=1", "--workers-memory=64MiB")
	ready := oneWaits(t, d)
	stranger := strconv.Itoa(0x7e000000 + ready)
	mayAs(t, ready, map[string]string{
		"Uid": strings.Join(
			[]string{stranger, stranger, "0", stranger},
			" ",
		), "Gid": strings.Join([]string{stranger, stranger, "0", stranger}, " "),
		"Groups": "", "CapEff": noRights, "NoNewPrivs": "1",
	})
	status := d.Status()
	if got := status.GetDaemon().GetWaitingBytes(); !slices.Equal(got, []uint64{held}) ||
		status.GetGpus()[0].GetUsedBytes() != held {
		t.Errorf("%v bytes wait, %d are used; want %d", got, status.GetGpus()[0].GetUsedBytes(), held)
	}
	user := strconv.Itoa(ordinary)
	users := ask(t, as(in(d, home(t, ordinary), "asked.py"), ordinary))
	users.does(1, 1)
	worker := int(d.Status().GetPrograms()[0].GetWorkerPid())
	if worker != ready {
		t.Errorf("worker %d serves, and %d has waited", worker, ready)
	}
	four := strings.Join([]string{user, user, user, user}, " ")
	mayAs(t, worker, map[string]string{
		"Uid": four, "Gid": four, "Groups": strconv.Itoa(ordinary + 1), "CapEff": noRights, "CapPrm": noRights, "CapAmb": noRights, "NoNewPrivs": "1",
	})
	users.does(2, 3)
	dir := filepath.Join(home(t, ordinary), "image")
	if text, err := run(t, as(d.Command("--pre-dump", "--dir", dir, "--pid", strconv.Itoa(users.pid)), ordinary)); err != nil {
		t.Fatal(err, text)
	}
	users.kill()
	ready = oneWaits(t, d)
	users = restoreBy(t, d, as(d.Command("--restore", "--dir", dir), ordinary))
	if worker = int(d.Status().GetPrograms()[0].GetWorkerPid()); worker != ready {
		t.Errorf("worker %d serves the restored program, and %d has waited", worker, ready)
	}
	users.does(1, 4)
	ready = oneWaits(t, d)
	roots := ask(t, program(d))
	roots.does(1, 1)
	self := rights(t, os.Getpid())
	mayAs(t, ready, map[string]string{"Uid": "0 0 0 0", "CapEff": self["CapEff"], "CapPrm": self["CapPrm"]})
	roots.does(1, 2)
	ready = oneWaits(t, d)
	d.Kill()
	d.Eventually("it ends with phosd", func() bool { return zombie(ready) })
	users.does(1, 5)
	d.Launch()
	users.does(1, 6)
	roots.does(1, 3)
	ready = oneWaits(t, d)
	users.ends(0)
	roots.ends(0)
	if err := syscall.Kill(d.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.Await()
	if !zombie(ready) {
		t.Errorf("worker %d waits for no program", ready)
	}
	d.Launch()
}

// allocates takes memory of a GPU, says how that fares, and keeps it until its input ends.
const allocates = `
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
for mebibytes in 100, 150, 10:
    print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mebibytes << 20)), flush=True)
sys.stdin.read()
`

// TestWaitingMakesRoom: workers that wait end when a program needs their memory, as many as it
// takes, and not where that would not help.
func TestWaitingMakesRoom(t *testing.T) {
	d := start(t, "--gpus=soft:1,memory=256MiB", "--workers-warm=3", "--workers-memory=40MiB")
	d.Eventually("three workers wait", func() bool { return d.Status().GetDaemon().GetWaitingWorkers() == 3 })
	command := exec.Command(python, "-c", allocates)
	command.Env = d.Environment()
	hold, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	// 256 MiB, of which 80 to 120 are held: 100 fit or make one end, 150 more make the others end, 10
	// more are not there.
	const want = "0\n0\n2\n"
	text := make([]byte, len(want))
	if _, err := io.ReadFull(output, text); err != nil || string(text) != want {
		t.Errorf("results %q, %v; want %q", text, err, want)
	}
	d.LogContains("makes room for a program")
	d.Eventually(
		"none waits while the program holds the memory",
		func() bool { return d.Status().GetDaemon().GetWaitingWorkers() == 0 },
	)
	_ = hold.Close()
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}
