package pipeline

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// memories are the bytes of a rank that cut each model into pipelines of several.
var memories = map[string]string{"gpt": "2200000", "tied": "2200000", "dropout": "2200000", "conv": "300000"}

// inPipelines are options of a training whose pipelines have several ranks.
func inPipelines(model string, more ...string) []string {
	return append([]string{"memory=" + memories[model]}, more...)
}

// inThesePipelines are the same, with a plan that does not depend on what layers cost here today: a
// test says which ranks do what. They send backups all the time.
func inThesePipelines(model string, more ...string) []string {
	return inPipelines(model, append([]string{"costs=even", "backup=0"}, more...)...)
}

// TestSameBits: a training on any number of ranks has the same losses, norms and weights as one
// process that follows the rule of docs/training.md.
func TestSameBits(t *testing.T) {
	for i, model := range []string{"gpt", "tied", "conv"} {
		for j, ranks := range []int{1, 2, 5} {
			if ranks < 5 && i != j && !rounds.All() {
				continue
			}
			t.Run(fmt.Sprintf("%s on %d", model, ranks), func(t *testing.T) {
				t.Parallel()
				var all []string
				if ranks > 1 {
					all = inPipelines(model)
				}
				start(t, model, 4, ranks, all, nil).same()
			})
		}
	}
}

// TestPlainPyTorch: the rule changes nothing but the rounding of what PyTorch computes.
func TestPlainPyTorch(t *testing.T) {
	for _, model := range []string{"gpt", "tied", "conv"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			rule, plain := steps(t, trained(t, "rule", model, 4).steps), steps(t, trained(t, "plain", model, 4).steps)
			for i, want := range plain {
				if got := rule[i]; !near(got.Loss, want.Loss) || !near(got.Norm, want.Norm) {
					t.Errorf("step %d is %+v, and PyTorch's %+v", i, got, want)
				}
			}
		})
	}
}

// TestHuggingFace: a model of transformers that was split trains as it does whole, on any number of
// ranks, and what is saved has the names that it has there.
func TestHuggingFace(t *testing.T) {
	_, err := harness.Tool("TRANSFORMERS")
	harness.Need(t, "transformers", err)
	for i, model := range []string{"hf-gpt2", "hf-llama"} {
		if i != rounds.First(2) && !rounds.All() {
			continue
		}
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			whole := trained(t, "plain", model+"-whole", 4)
			one := start(t, model, 4, 1, nil, nil)
			many := start(t, model, 4, 5, []string{"memory=2600000", "faults=1"}, options{3: {"die=backward:5"}})
			one.await()
			many.await()
			for i, want := range steps(t, whole.steps) {
				if got := steps(t, one.lines(0))[i]; !near(got.Loss, want.Loss) || !near(got.Norm, want.Norm) {
					t.Errorf("step %d is %+v, and of the whole model %+v", i, got, want)
				}
			}
			if got := many.lines(0); got != one.lines(0) || !many.ranks[3].killed() {
				t.Errorf("five ranks make\n%sone makes\n%s%v", got, one.lines(0), many.ranks[3].err)
			}
			reference := filepath.Join(t.TempDir(), "reference")
			if err := os.WriteFile(reference, whole.model, 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, "loads.py", []string{model, filepath.Join(many.dir, "out.pt"), reference}).finish(t)
		})
	}
}

// TestLossScale: a scale changes no bit, and with one that is too large all ranks leave out the
// same steps.
func TestLossScale(t *testing.T) {
	for _, scale := range []float64{1 << 10, 1 << 130} {
		t.Run(fmt.Sprint(scale), func(t *testing.T) {
			t.Parallel()
			all := inPipelines("gpt", "faults=1", fmt.Sprintf("scale=%g", scale))
			many := start(t, "gpt", 5, 4, all, options{1: {"die=backward:9"}})
			if scale < 1<<100 {
				many.same(1)
				return
			}
			one := start(t, "gpt", 5, 1, []string{fmt.Sprintf("scale=%g", scale)}, nil)
			one.await()
			many.await()
			got := many.lines(0)
			if got != one.lines(0) || !many.ranks[1].killed() {
				t.Errorf("four ranks make\n%sone makes\n%s", got, one.lines(0))
			}
			left := regexp.MustCompile(`"norm": (NaN|Infinity)`).FindAllString(got, -1)
			if len(left) == 0 || len(left) == 5 || strings.Count(got, "\n") != 5 {
				t.Errorf("%d steps are left out of\n%s", len(left), got)
			}
		})
	}
}

// TestDrawn: what layers draw at random does not depend on the ranks, nor does the order of
// samples, nor what is computed again.
func TestDrawn(t *testing.T) {
	t.Parallel()
	want := start(t, "dropout", 4, 1, []string{"shuffle=yes"}, nil)
	want.await()
	for _, recompute := range []string{"no", "yes"} {
		t.Run("recompute "+recompute, func(t *testing.T) {
			got := start(t, "dropout", 4, 4, inPipelines("dropout", "shuffle=yes", "recompute="+recompute), nil)
			got.await()
			if got.lines(2) != want.lines(0) || want.lines(0) == "" {
				t.Errorf("four ranks make\n%sone makes\n%s", got.lines(2), want.lines(0))
			}
		})
	}
	if want.lines(0) == trained(t, "rule", "dropout", 4).steps {
		t.Error("dropout draws nothing")
	}
}

// step is a line that a rank prints.
type step struct {
	Number     int
	Loss, Norm float64
}

func steps(t *testing.T, text string) (all []step) {
	t.Helper()
	for line := range strings.Lines(text) {
		var s step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		t.Fatal("no step was made")
	}
	return all
}

// near allows for the rounding of a few steps in single precision.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-4*math.Abs(b) }

// TestByHand: the program of docs/training.md, started as it says there.
func TestByHand(t *testing.T) {
	t.Parallel()
	program, commands := documented(t, "TestByHand", 1)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	commands = strings.ReplaceAll(strings.ReplaceAll(commands, "python3", python(t)), "29500", harness.FreePort(t))
	c := exec.CommandContext(t.Context(), "/bin/sh", "-ec", commands+"\nwait")
	c.Dir, c.Env = dir, append(environ(t.TempDir()), "PYTHONUNBUFFERED=") // each prints all lines at once
	said, err := c.CombinedOutput()
	// Both print at once.
	printed := map[string]int{}
	for _, loss := range regexp.MustCompile(`\d\.\d{6,}`).FindAllString(string(said), -1) {
		printed[loss]++
	}
	for loss, times := range printed {
		if times != 2 {
			t.Errorf("the loss %s was printed %d times", loss, times)
		}
	}
	if err != nil || len(printed) != 10 {
		t.Errorf("%v: %s", err, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "model.pt")); err != nil {
		t.Error(err)
	}
}
