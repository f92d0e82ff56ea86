package checkpoint

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// scattered has memory of which it rewrites one page of a hundred each time, here and there. It
// knows what each page must hold.
const scattered = `
import ctypes, mmap, os, random, sys, time
cuda = ctypes.CDLL('libcuda.so.1')
context, memory = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
count = 24000
area = mmap.mmap(-1, count << 12, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
version = [0] * count
def made(i): return random.Random(i * 1000 + version[i]).randbytes(4096)
for i in range(count): area[i << 12:i + 1 << 12] = made(i)
print('ready', flush=True)
for round in range(1, 100):
    while not os.path.exists(f'go{round}') and not os.path.exists(os.environ['HOLD']): time.sleep(0.005)
    if os.path.exists(os.environ['HOLD']): break
    for i in random.Random(round).sample(range(count), count // 100):
        version[i] = round
        area[i << 12:i + 1 << 12] = made(i)
    print('round', round, flush=True)
wrong = [i for i in range(count) if area[i << 12:i + 1 << 12] != made(i)]
print('wrong', wrong[:9], len(wrong), 'round', round, flush=True)
`

// TestScatteredPages: a checkpoint writes the pages that were written since the first, and not all
// chunks that have one. Each generation comes back with what it had.
func TestScatteredPages(t *testing.T) {
	const rounds = 4
	daemon := start(t)
	job := daemon.Job(t, "/usr/bin/python3", "-c", scattered)
	job.Hold = true
	job.Start()
	job.WaitLines(1)
	first := writtenBytes(t, job)
	for round := 1; round <= rounds; round++ {
		if err := os.WriteFile(filepath.Join(job.Dir, fmt.Sprint("go", round)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		job.WaitLines(1 + round)
		if written := writtenBytes(t, job); written > first*uint64(round+4)/100 {
			t.Errorf("round %d has written %d bytes of %d", round, written, first)
		}
	}
	job.Kill()
	for round := rounds; round >= 0; round-- {
		job.Restore("--generation", fmt.Sprint(round+1))
		status := job.Finish()
		want := fmt.Sprintf("wrong [] 0 round %d\n", round+1)
		if out := job.Result()["out"]; status != 0 || !strings.HasSuffix(out, want) {
			t.Errorf("generation %d ended with %d: %s", round+1, status, out)
		}
	}
}

// writtenBytes takes a checkpoint and returns what it has written.
func writtenBytes(t *testing.T, job *harness.Job) uint64 {
	t.Helper()
	var said struct {
		Written uint64 `json:"written_bytes"`
	}
	text := job.PreDump("--json")
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	t.Log(text)
	return said.Written
}
