package bench

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// interpreter runs the interpreter's own benchmarks: a naive matrix multiplication on one core and
// on two, and the cost of marking dirty chunks.
func interpreter(t *testing.T) []row {
	t.Helper()
	command := harness.Command(
		"go",
		"test",
		"-run",
		"^$",
		"-bench",
		"Matmul|Marks",
		"-benchtime",
		"20x",
		"-cpu",
		"2",
		"./daemon/gpu/soft/simt",
	)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("benchmark: %v\n%s", err, output)
	}
	one := metric(t, output, "MatmulOneCore", "ns/thread-inst")
	two := metric(t, output, "MatmulAllCores", "ns/thread-inst")
	return []row{
		{name: "naive 256\u00b3 matmul, one core", value: one, unit: "ns", most: 0.7, note: "for a thread-instruction"},
		{name: "  on two cores", value: one / two, least: 1.8, note: "times as fast"},
		{
			name:  "a kernel of stores, marking",
			value: metric(t, output, "Marks", "of-unmarked"),
			most:  1.1,
			note:  "of its time on memory without marks",
		},
		{
			name:  "step rate, marks on / off",
			value: metric(t, output, "MarksRate", "of-unmarked-rate"),
			least: 0.97,
			note:  "naive matmul, never checkpointed, by processor time",
		},
	}
}

// metric returns a figure that a benchmark reports.
func metric(t *testing.T, output []byte, benchmark, unit string) float64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^Benchmark` + benchmark + `\b.*\s([0-9.]+) ` + unit + `\b`).FindSubmatch(output)
	if match == nil {
		t.Fatalf("the benchmark %s did not report %s:\n%s", benchmark, unit, output)
	}
	value, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
