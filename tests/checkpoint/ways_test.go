package checkpoint

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestTorchMixed saves trainings in mixed precision; the scale of half precision's losses lives on
// the GPU.
func TestTorchMixed(t *testing.T) { savedWays(t, torch(t), forTorch, "half", "brain") }

// TestTorchCaptured saves a training whose steps are a captured graph.
func TestTorchCaptured(t *testing.T) { savedWays(t, torch(t), forTorch, "captured") }

// TestTorchExpandable saves a training whose allocator maps and unmaps memory in segments that it
// reserved.
func TestTorchExpandable(t *testing.T) { savedWays(t, torch(t), forTorch, "expandable") }

// TestTorchWorkers saves trainings together with the processes that bring their data.
func TestTorchWorkers(t *testing.T) { savedWays(t, torch(t), forTorch, "forked", "spawned") }

// TestTorchCompiled saves trainings that torch.compile has made kernels of, by Triton, and graphs
// of these.
func TestTorchCompiled(t *testing.T) {
	python := torch(t)
	harness.Need(t, "triton", harness.Triton(python))
	savedWays(t, python, "--gpus=soft:1,deterministic,cc=9.0", "compiled", "reduced")
}

// TestTorchGroup saves a training in a process group of one, by NCCL.
func TestTorchGroup(t *testing.T) {
	savedWays(t, harness.WithNCCL(t), "--gpus=soft:1,deterministic,cc=9.0,cuda=13.0", "group")
}

// savedWays saves the small training in each of the ways.
func savedWays(t *testing.T, python, gpus string, ways ...string) {
	t.Helper()
	daemon := start(t, gpus)
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			const steps = 12
			caches := t.TempDir()
			savedInBetween(t, steps, func(rest string) *harness.Job {
				job := script(t, daemon, python, "with_ways.py", way, fmt.Sprint(steps), rest)
				plain := job.Prepare
				job.Prepare = func(command *exec.Cmd) {
					plain(command)
					command.Env = append(command.Env, harness.TritonSettings(caches)...)
				}
				return job
			})
		})
	}
	daemon.Empty()
}
