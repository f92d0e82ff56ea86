package bench

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// measureSteps compares the steps of PyTorch programs with the driver alone and under phos,
// alternately.
func measureSteps(t *testing.T, b *bench) (rows []row) {
	onGPU(t)
	python, err := harness.Tool("TORCH_PYTHON")
	harness.Need(t, "torch", err)
	daemon := harness.Start(t)
	for kind := range strings.FieldsSeq(cmp.Or(os.Getenv("PHOS_BENCH_MODELS"), "gpt2 resnet50 decode")) {
		var s stepRuns
		for range b.rounds {
			alone := stepProgram(python, kind)
			alone.Env = append(harness.NativeEnvironment(), alone.Env...)
			under := stepProgram(python, kind)
			under.Env = append(daemon.Environment(), under.Env...)
			s.alone, s.under = append(
				s.alone,
				readStepTime(t, kind+" by the driver alone", alone),
			), append(
				s.under,
				readStepTime(t, kind+" under phos", under),
			)
		}
		rows = append(rows, s.rows(kind)...)
	}
	daemon.Empty()
	return rows
}

// stepProgram prepares a program; the caller sets its environment.
func stepProgram(python, kind string) *exec.Cmd {
	command := exec.Command(python, harness.Workload("torch", "step_time.py"), kind,
		cmp.Or(os.Getenv("PHOS_TORCH_STEPS"), "50"), cmp.Or(os.Getenv("PHOS_TORCH_SCALE"), "1"))
	command.Env = []string{"PYTHONDONTWRITEBYTECODE=1"}
	return command
}

// stepRuns are alternating runs of the same program.
type stepRuns struct{ alone, under []stepTime }

// stepTime is the output of step_time.py.
type stepTime struct{ median, slow, sum float64 } // the times in milliseconds

func readStepTime(t *testing.T, what string, command *exec.Cmd) stepTime {
	t.Helper()
	var complaint strings.Builder
	command.Stderr = &complaint
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", what, err, text, complaint.String())
	}
	said := numbers(t, string(text))
	if said["median_ms"] == 0 {
		t.Fatalf("%s: no time in the output: %s", what, text)
	}
	return stepTime{said["median_ms"], said["p90_ms"], said["sum"]}
}

func (s stepRuns) rows(kind string) []row {
	var alone, under, slow, ratios, sums []float64
	for i := range s.alone {
		alone, under = append(alone, s.alone[i].median), append(under, s.under[i].median)
		slow = append(slow, s.under[i].slow/s.alone[i].slow)
		ratios = append(ratios, s.under[i].median/s.alone[i].median)
		sums = append(sums, s.alone[i].sum, s.under[i].sum)
	}
	return []row{
		{
			name: kind + ": step, in the driver's time", value: median(under) / median(alone), most: 1.03,
			note: fmt.Sprintf(
				"%.3f of %.3f ms; the results of %d runs differ by %.1g",
				median(under),
				median(alone),
				len(sums),
				slices.Max(sums)-slices.Min(sums),
			),
		},
		{
			name:  "  " + kind + ": the worst of all turns",
			value: slices.Max(ratios),
			most:  1.05,
			note:  fmt.Sprintf("90th percentiles: %.3f", median(slow)),
		},
	}
}
