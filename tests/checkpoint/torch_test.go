package checkpoint

import (
	"os/exec"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestTorch saves a training by unmodified PyTorch while it runs, ends it, and brings it back from every generation.
func TestTorch(t *testing.T) {
	python, err := lab.Tool("TORCH_PYTHON")
	lab.Need(t, "torch", err)
	daemon := start(t, "--gpus=soft:1,deterministic,cc=12.0")
	job := func(rest string) *lab.Job {
		job := daemon.Job(t, python, lab.Workload("checkpoint", "with_torch.py"), "20", rest)
		job.Prepare = func(command *exec.Cmd) { command.Env = append(command.Env, "PYTHONDONTWRITEBYTECODE=1") }
		return job
	}
	want, status := undisturbed(job("0"))
	if status != 7 {
		t.Fatalf("undisturbed, it ends with status %d: %s%s", status, want["out"], want["err"])
	}
	saved := job("0.1")
	saved.Held = true
	saved.Start()
	for n := range generations - 1 {
		saved.Reaches(n*5 + 3)
		t.Log(saved.PreDump())
	}
	saved.Reaches(15)
	t.Log(saved.Dump())
	same(t, saved, want, status)
	daemon.Empty()
}
