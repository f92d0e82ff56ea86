package checkpoint

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// changesMemory has 24 MiB that no earlier checkpoint has.
const changesMemory = `
import os, time
print('ready', flush=True)
while not os.path.exists(os.environ['HOLD']):
    data = os.urandom(24 << 20)
    time.sleep(0.05)
print('went on', flush=True)
`

// onGPUs has 12 MiB of random bytes on a GPU, and so has its child.
const onGPUs = `
import ctypes, os, subprocess, sys, time
cuda = ctypes.CDLL('libcuda.so.1')
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status: sys.exit('%s: %d' % (name, status))
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call('cuInit', 0)
call('cuDeviceGet', ctypes.byref(device), 0)
call('cuCtxCreate_v2', ctypes.byref(context), 0, device)
call('cuMemAlloc_v2', ctypes.byref(memory), 12 << 20)
call('cuMemcpyHtoD_v2', memory, os.urandom(12 << 20), ctypes.c_size_t(12 << 20))
call('cuCtxSynchronize')
if len(sys.argv) < 2:
    child = subprocess.Popen([sys.executable, '-c', open('/proc/self/cmdline').read().split('\0')[2], 'child'])
print('ready', flush=True)
while not os.path.exists(os.environ['HOLD']): time.sleep(0.01)
if len(sys.argv) < 2: sys.exit(child.wait())
`

// TestBandwidthOfGPUs: two programs on GPUs, and their processes, are written within one limit.
func TestBandwidthOfGPUs(t *testing.T) {
	const rate = 24 << 20
	daemon := start(t)
	job := daemon.Job(t, "/usr/bin/python3", "-c", onGPUs)
	job.Hold = true
	job.Start()
	job.WaitLines(2)
	got := dumpWith(t, job, "--pre-dump", "--bandwidth", fmt.Sprint(rate))
	if got.GPU < rate || got.Written <= got.GPU {
		t.Fatalf("wrote %d bytes, %d of them of GPUs", got.Written, got.GPU)
	}
	took := time.Duration(got.Total) * time.Microsecond
	const slack = 8 << 20
	if least := time.Second * time.Duration(got.Written-slack) / rate; took < least {
		t.Errorf("wrote %d bytes in %v, want at least %v", got.Written, took, least)
	}
	if status := job.Finish(); status != 0 {
		t.Errorf("exited with status %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}

// changing starts changesMemory.
func changing(t *testing.T, daemon *harness.Daemon) *harness.Job {
	t.Helper()
	job := daemon.Job(t, "/usr/bin/python3", "-c", changesMemory)
	job.Hold = true
	job.Start()
	job.WaitLines(1)
	return job
}

// dumpResult is the output of a checkpoint with --json.
type dumpResult struct {
	Written uint64            `json:"written_bytes"`
	GPU     uint64            `json:"gpu_written_bytes"`
	Pause   uint64            `json:"pause_microseconds"`
	Total   uint64            `json:"total_microseconds"`
	Took    map[string]uint64 `json:"took_microseconds"`
}

func dumpWith(t *testing.T, job *harness.Job, verb string, flags ...string) (result dumpResult) {
	t.Helper()
	said := job.Cli(append([]string{verb, "--json", "--dir", job.Image, "--pid", fmt.Sprint(job.PID)}, flags...)...)
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&result); err != nil {
		t.Fatalf("%v in %s", err, said)
	}
	return result
}

// TestBandwidth: what is written of the processes keeps to the limit, too. The program is not
// paused for that, unless it ends with the checkpoint.
func TestBandwidth(t *testing.T) {
	const rate = 24 << 20
	daemon := start(t)
	job := changing(t, daemon)
	for _, verb := range []string{"--pre-dump", "--dump"} {
		got := dumpWith(t, job, verb, "--bandwidth", fmt.Sprint(rate))
		if got.Written < rate/2 || got.GPU > 0 {
			t.Fatalf("%s wrote %d bytes, %d of them of a GPU", verb, got.Written, got.GPU)
		}
		if got.Took["pause"] != got.Pause {
			t.Errorf("%s paused for %d µs, and for %d µs", verb, got.Pause, got.Took["pause"])
		}
		// The last chunk of each writer is admitted before it is paid for.
		took := time.Duration(got.Total) * time.Microsecond
		const slack = 4 << 20
		if least := time.Second * time.Duration(got.Written-slack) / rate; took < least {
			t.Errorf("%s wrote %d bytes in %v, want at least %v", verb, got.Written, took, least)
		}
		if verb == "--pre-dump" && got.Pause > got.Total/2 {
			t.Errorf("the program was paused for %d of %d µs", got.Pause, got.Total)
		}
	}
	job.WaitGone()
	job.Restore()
	if status := job.Finish(); status != 0 {
		t.Errorf("exited with status %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}

// treeOf returns the names and sizes of all files below a directory, and the content of small ones.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		found[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			found[path] = string(text)
			return err
		}
		if entry.IsDir() {
			found[path] = info.Mode().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDeadline: a checkpoint that takes longer than --deadline gives up, whatever takes long. Here
// the write does, because of a small bandwidth. The program runs on, and the directory is as it
// was.
func TestDeadline(t *testing.T) {
	daemon := start(t)
	job := changing(t, daemon)
	job.PreDump()
	before := treeOf(t, job.Image)
	for _, verb := range []string{"--pre-dump", "--dump"} {
		said, err := job.TryCli(verb, "--deadline", "1s", "--bandwidth", "64KiB", "--dir", job.Image, "--pid",
			fmt.Sprint(job.PID))
		if err == nil || !strings.Contains(said, "gave up") || !strings.Contains(said, "--deadline") {
			t.Errorf("%s: %v: %s", verb, err, said)
		}
		if !job.Alive() {
			t.Fatalf("%s: the program has ended", verb)
		}
		after := treeOf(t, job.Image)
		for path, had := range before {
			if now, ok := after[path]; !ok || now != had {
				t.Errorf("%s: %s has changed (exists: %v)", verb, path, ok)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s: %d files, before %d", verb, len(after), len(before))
		}
	}
	// A new directory is removed again.
	fresh := job.Image + "2"
	if said, err := job.TryCli("--pre-dump", "--deadline", "1s", "--bandwidth", "64KiB", "--dir", fresh, "--pid",
		fmt.Sprint(job.PID)); err == nil {
		t.Errorf("into a new directory: %s", said)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("the new directory was left: %v", err)
	}
	if status := job.Finish(); status != 0 || job.Lines() != 2 {
		t.Errorf("exited with status %d after %d lines: %s", status, job.Lines(), job.Stderr())
	}
	daemon.Empty()
}
