package nested

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestDeviceHeap checkpoints programs whose kernels take memory by malloc. The driver's heap cannot
// be saved, so a checkpoint after such a kernel must be refused, with the program undisturbed.
func TestDeviceHeap(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	source := filepath.Join("testdata", "heap.cu")
	program := harness.Compile(t, harness.CUDA, "-I"+harness.Workload("checkpoint"), source)
	daemon := harness.StartNested(t, "--gpus=soft:1,deterministic")
	for _, test := range []struct {
		how     string
		refused bool
	}{{"loaded", false}, {"launched", true}, {"graph", true}} {
		t.Run(test.how, func(t *testing.T) {
			job := daemon.Job(t, program, test.how)
			job.Hold = true
			job.Start()
			job.WaitLines(1)
			for _, verb := range []string{"--pre-dump", "--dump"} {
				if !test.refused {
					break
				}
				text, err := job.TryCli(verb, "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
				if err == nil || !strings.Contains(text, "kernel _Z4takei has run") || !strings.Contains(text, "malloc") {
					t.Errorf("%s: got %v and %q, want a refusal that names the kernel", verb, err, text)
				}
				if files, _ := os.ReadDir(job.Image); len(files) > 0 {
					t.Errorf("%s: the refused checkpoint left %v", verb, files)
				}
			}
			if !test.refused {
				job.Dump()
				job.Restore()
			}
			if status := job.Finish(); status != 7 {
				t.Errorf("exit status %d, want 7: the program found another sum", status)
			}
		})
	}
	daemon.Empty()
}
