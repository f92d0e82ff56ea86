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

// standbyWorkers finds the processes of a daemon's standby workers.
func standbyWorkers(d *harness.Daemon) (pids []int) {
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

// waitStandby waits until there is exactly one standby worker, and returns its pid.
func waitStandby(t *testing.T, d *harness.Daemon) (pid int) {
	t.Helper()
	d.Eventually("one standby worker", func() bool {
		status := d.Status()
		pids := standbyWorkers(d)
		// A worker keeps its command line after it is assigned, and may outlive its session
		// briefly.
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

// credentials returns the fields of /proc/PID/status that hold a process's privileges.
func credentials(t *testing.T, pid int) map[string]string {
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

// checkCredentials compares the privileges of a process with the expected ones.
func checkCredentials(t *testing.T, pid int, want map[string]string) {
	t.Helper()
	got := credentials(t, pid)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("pid %d has %s %q, want %q", pid, name, got[name], value)
		}
	}
}

const noRights = "0000000000000000"

// TestStandby: a standby worker belongs to no program. It then serves a program of any user with
// that user's privileges, after a start or a restore, and exits with phosd.
func TestStandby(t *testing.T) {
	const held = 64 << 20
	d := start(t, "--workers-standby=1", "--workers-memory=64MiB")
	ready := waitStandby(t, d)
	stranger := strconv.Itoa(0x7e000000 + ready)
	checkCredentials(t, ready, map[string]string{
		"Uid": strings.Join(
			[]string{stranger, stranger, "0", stranger},
			" ",
		), "Gid": strings.Join([]string{stranger, stranger, "0", stranger}, " "),
		"Groups": "", "CapEff": noRights, "NoNewPrivs": "1",
	})
	status := d.Status()
	if got := status.GetDaemon().GetWaitingBytes(); !slices.Equal(got, []uint64{held}) ||
		status.GetGpus()[0].GetUsedBytes() != held {
		t.Errorf("got %v standby bytes, %d used bytes, want %d", got, status.GetGpus()[0].GetUsedBytes(), held)
	}
	user := strconv.Itoa(ordinary)
	users := stepperCommand(t, as(homeProgram(d, home(t, ordinary), "asked.py"), ordinary))
	users.step(1, 1)
	worker := int(d.Status().GetPrograms()[0].GetWorkerPid())
	if worker != ready {
		t.Errorf("program got worker %d, want standby worker %d", worker, ready)
	}
	four := strings.Join([]string{user, user, user, user}, " ")
	checkCredentials(t, worker, map[string]string{
		"Uid": four, "Gid": four, "Groups": strconv.Itoa(ordinary + 1), "CapEff": noRights, "CapPrm": noRights,
		"CapAmb": noRights, "NoNewPrivs": "1",
	})
	users.step(2, 3)
	dir := filepath.Join(home(t, ordinary), "image")
	if text, err := run(t, as(d.Command(
		"--pre-dump", "--dir", dir, "--pid", strconv.Itoa(users.pid),
	), ordinary)); err != nil {
		t.Fatal(err, text)
	}
	users.kill()
	ready = waitStandby(t, d)
	users = restoreBy(t, d, as(d.Command("--restore", "--dir", dir), ordinary))
	if worker = int(d.Status().GetPrograms()[0].GetWorkerPid()); worker != ready {
		t.Errorf("restored program got worker %d, want standby worker %d", worker, ready)
	}
	users.step(1, 4)
	ready = waitStandby(t, d)
	roots := stepperCommand(t, program(d))
	roots.step(1, 1)
	self := credentials(t, os.Getpid())
	checkCredentials(t, ready, map[string]string{"Uid": "0 0 0 0", "CapEff": self["CapEff"], "CapPrm": self["CapPrm"]})
	roots.step(1, 2)
	ready = waitStandby(t, d)
	d.Kill()
	d.Eventually("the standby worker exits with phosd", func() bool { return zombie(ready) })
	users.step(1, 5)
	d.Launch()
	users.step(1, 6)
	roots.step(1, 3)
	ready = waitStandby(t, d)
	users.finish(0)
	roots.finish(0)
	if err := syscall.Kill(d.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.Await()
	if !zombie(ready) {
		t.Errorf("worker %d outlived phosd", ready)
	}
	d.Launch()
}

// allocates allocates GPU memory, prints the results, and holds the memory until its input ends.
const allocates = `
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
for mebibytes in 100, 150, 10:
    print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mebibytes << 20)), flush=True)
sys.stdin.read()
`

// TestStandbyReleasesMemory: standby workers exit when a program needs their memory. Only as many
// exit as needed, and none if that would not be enough.
func TestStandbyReleasesMemory(t *testing.T) {
	d := start(t, "--gpus=soft:1,memory=256MiB", "--workers-standby=3", "--workers-memory=40MiB")
	d.Eventually("three standby workers", func() bool { return d.Status().GetDaemon().GetWaitingWorkers() == 3 })
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
	// Of 256 MiB, standby workers hold 80 to 120. An allocation of 100 fits or ends one worker, 150
	// more end the others, and 10 more fail.
	const want = "0\n0\n2\n"
	text := make([]byte, len(want))
	if _, err := io.ReadFull(output, text); err != nil || string(text) != want {
		t.Errorf("results %q, %v; want %q", text, err, want)
	}
	d.LogContains("makes room for a program")
	d.Eventually(
		"no standby worker while the program holds the memory",
		func() bool { return d.Status().GetDaemon().GetWaitingWorkers() == 0 },
	)
	_ = hold.Close()
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}
