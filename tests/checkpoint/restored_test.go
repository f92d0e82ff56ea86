package checkpoint

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/tests/harness"
)

// couple is a program with a GPU and its child without one; each fills memory of its own, waits,
// and reads all of it.
const couple = `
import ctypes, os, sys, time
child = os.fork()
def page(i): return b'%d page %07d ' % (child > 0, i) * 200
pages = [page(i) for i in range(4000)]
if child:
    cuda = ctypes.CDLL('libcuda.so.1')
    context, memory = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(memory), 1 << 20) == 0
    print('ready', os.getpid(), child, flush=True)
while not os.path.exists(os.environ['HOLD']): time.sleep(0.01)
good = all(pages[i] == page(i) for i in range(4000))
if not child: os._exit(not good)
print('right' if good and os.waitpid(child, 0)[1] == 0 else 'wrong', flush=True)
`

// TestRestoredAgain: the memory of restored processes, with a GPU and without, is copied while they
// run, also when they were restored before.
func TestRestoredAgain(t *testing.T) {
	daemon := start(t)
	program, err := harness.CRIU()
	if err == nil {
		err = exec.Command(program, "check", "--feature", "track_written").Run()
	}
	harness.Need(t, "criu", err)
	job := daemon.Job(t, "/usr/bin/python3", "-c", couple)
	job.Hold = true
	job.Start()
	job.WaitLines(1)
	job.Dump() // the child has not offered to be tracked before it was restored
	for range 2 {
		job.Restore()
		job.Dump()
		said := strings.Fields(job.Result()["out"])
		for _, pid := range said[len(said)-2:] {
			if names := cpuFiles(t, job.Image); !strings.Contains(names, "/parent/pages-"+pid+".img ") {
				t.Errorf("pid %s was copied in the pause: %s", pid, names)
			}
		}
	}
	job.Restore()
	job.Release()
	if status := job.Finish(); status != 0 || !strings.Contains(job.Result()["out"], "right") {
		t.Errorf("ended with %d: %s", status, job.Result()["out"])
	}
}

// cpuFiles returns the names of CRIU's files in the newest generation, with a blank behind each.
func cpuFiles(t *testing.T, path string) string {
	t.Helper()
	_, names := readTree(t, path, 0, func(m *image.Manifest) string { return m.CPU.Tree })
	return names + " "
}

// TestEarlyMemory: image check says which memory must be there before a program runs, and why.
func TestEarlyMemory(t *testing.T) {
	daemon := start(t)
	job := daemon.Job(t, "/usr/bin/python3", "-c", `
import ctypes, os, time
pages = bytearray(os.urandom(100 << 20))
assert ctypes.CDLL(None).mlockall(1) == 0
print('ready', flush=True)
while not os.path.exists(os.environ['HOLD']): time.sleep(0.01)
`)
	job.Hold = true
	job.Start()
	job.WaitLines(1)
	job.Dump()
	said := job.Cli("image", "check", job.Image)
	if !regexp.MustCompile(`memory: 1\d\d\.?\d* MiB come back before .* 1\d\d\.?\d* MiB that is locked.*\(a restore is possible\)`).MatchString(said) {
		t.Errorf("image check: %s", said)
	}
	job.Restore()
	job.Release()
	if status := job.Finish(); status != 0 {
		t.Errorf("ended with %d", status)
	}
}
