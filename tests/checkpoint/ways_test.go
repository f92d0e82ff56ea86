package checkpoint

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestTorchMixed saves trainings in mixed precision. The loss scale of half precision is in GPU
// memory.
func TestTorchMixed(t *testing.T) { checkpointModes(t, torch(t), torchGPU, "half", "brain") }

// TestTorchCaptured saves a training whose steps are a captured graph.
func TestTorchCaptured(t *testing.T) { checkpointModes(t, torch(t), torchGPU, "captured") }

// TestTorchExpandable saves a training whose allocator maps and unmaps memory in reserved segments.
func TestTorchExpandable(t *testing.T) { checkpointModes(t, torch(t), torchGPU, "expandable") }

// TestTorchWorkers saves trainings together with their data loader processes.
func TestTorchWorkers(t *testing.T) { checkpointModes(t, torch(t), torchGPU, "forked", "spawned") }

// TestTorchCompiled saves trainings whose kernels torch.compile has generated with Triton, and
// graphs of these kernels.
func TestTorchCompiled(t *testing.T) {
	python := torch(t)
	harness.Need(t, "triton", harness.Triton(python))
	checkpointModes(t, python, "--gpus=soft:1,deterministic,cc=9.0", "compiled", "reduced")
}

// TestTorchGroup saves a training in an NCCL process group of one.
func TestTorchGroup(t *testing.T) {
	checkpointModes(t, harness.WithNCCL(t), "--gpus=soft:1,deterministic,cc=9.0,cuda=13.0", "group")
}

// checkpointModes saves the small training in each of the modes.
func checkpointModes(t *testing.T, python, gpus string, ways ...string) {
	t.Helper()
	daemon := start(t, gpus)
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			const steps = 12
			caches := t.TempDir()
			checkpointBetweenSteps(t, steps, func(pause string) *harness.Job {
				job := script(t, daemon, python, "with_ways.py", way, fmt.Sprint(steps), pause)
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
