package bench

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// measureSteps compares how long steps of PyTorch programs take by the driver alone and under phos, by turns.
func measureSteps(t *testing.T, b *bench) (rows []row) {
	onGPU(t)
	python, err := lab.Tool("TORCH_PYTHON")
	lab.Need(t, "torch", err)
	daemon := lab.Start(t)
	for _, kind := range []string{"gpt2", "resnet50", "decode"} {
		var native, under []float64
		var sums []string
		for range b.rounds {
			alone := exec.Command(python, lab.Workload("torch", "step_time.py"), kind, "50")
			alone.Env = lab.NativeEnvironment()
			text, err := alone.Output()
			if err != nil {
				rows = append(rows, row{name: kind + ": not measured", note: fmt.Sprintf("the driver alone: %v", err)})
				break
			}
			program := daemon.Program(python, lab.Workload("torch", "step_time.py"), kind, "50")
			if err := program.Run(); err != nil {
				t.Fatalf("%s under phos: %v\n%s", kind, err, program.Output.String())
			}
			one, two := said(t, string(text)), said(t, program.Output.String())
			native, under = append(native, one.median), append(under, two.median)
			sums = append(sums, one.sum, two.sum)
		}
		if len(native) == 0 {
			continue
		}
		rows = append(rows, row{
			name: kind + ": step, in the driver's time", value: median(under) / median(native), most: 1.03,
			note: fmt.Sprintf("%.3f of %.3f ms; sums of losses: %s", median(under), median(native), strings.Join(sums, " ")),
		})
	}
	return rows
}

// stepTime is what step_time.py says.
type stepTime struct {
	median float64 // in milliseconds
	sum    string
}

func said(t *testing.T, text string) (s stepTime) {
	t.Helper()
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "median_ms":
			s.median, _ = strconv.ParseFloat(value, 64)
		case "sum":
			s.sum = value
		}
	}
	if s.median == 0 {
		t.Fatalf("no time is said: %s", text)
	}
	return s
}
