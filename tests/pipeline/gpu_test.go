package pipeline

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// gpus is a machine with software GPUs, one for each rank.
type gpus struct {
	*testing.T
	python string
	daemon *harness.Daemon
}

// train trains on some ranks, of which one dies (-1: none), and returns the steps of rank 0.
func (g *gpus) train(ranks, dies int) string {
	g.Helper()
	out, port := filepath.Join(g.TempDir(), "out"), harness.FreePort(g.T)
	var all []*harness.Program
	for number := range ranks {
		arguments := append([]string{filepath.Join(testdata, "train.py")}, append(numbers("small", 4), out)...)
		if ranks > 1 {
			arguments = append(arguments, "memory=45000", "faults=1")
		}
		if number == dies {
			arguments = append(arguments, "die=backward:5")
		}
		p := g.daemon.Program(g.python, arguments...).In(g.T)
		p.Env = append(append(p.Env, settings(g.TempDir())...), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port,
			fmt.Sprintf("RANK=%d", number), fmt.Sprintf("WORLD_SIZE=%d", ranks), fmt.Sprintf("LOCAL_RANK=%d", number))
		if err := p.Start(); err != nil {
			g.Fatal(err)
		}
		all = append(all, p)
	}
	for number, p := range all {
		err := p.Wait()
		var ended *exec.ExitError
		killed := errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if killed != (number == dies) || err != nil && !killed {
			g.Errorf("rank %d: %v\n%s", number, err, p.Output.String())
		}
	}
	return read(g.T, out+".0.steps")
}

// TestSoftwareGPUs trains on software GPUs, one for each rank, with an unmodified PyTorch for GPUs.
// A rank is lost; the steps have the bits of those of one GPU, and are those of a CPU but for
// rounding.
func TestSoftwareGPUs(t *testing.T) {
	python, err := harness.Tool("TORCH_PYTHON")
	harness.Need(t, "torch", err)
	harness.Need(t, "build", harness.Built())
	const ranks = 4
	g := &gpus{t, python, harness.Start(t, fmt.Sprintf("--gpus=soft:%d,cc=12.0", ranks))}
	one := g.train(1, -1)
	if many := g.train(ranks, 3); many != one || one == "" {
		t.Errorf("%d GPUs, of which one is lost, make\n%sone makes\n%s", ranks, many, one)
	}
	got, want := steps(t, one), steps(t, trained(t, "plain", "small", 4).steps)
	for i := range want {
		if len(got) != len(want) || !near(got[i].Loss, want[i].Loss) || !near(got[i].Norm, want[i].Norm) {
			t.Fatalf("a GPU makes %+v, and a CPU %+v", got, want)
		}
	}
	g.daemon.Empty()
}
