package bench

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// interpreter runs the interpreter's own benchmark of a naive matrix multiplication on one core and on two.
func interpreter(t *testing.T) [][4]string {
	t.Helper()
	command := lab.Command("go", "test", "-run", "^$", "-bench", "Matmul", "-benchtime", "5x", "-cpu", "2", "./daemon/gpu/soft/simt")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("benchmark: %v\n%s", err, output)
	}
	one, two := perInstruction(t, output, "OneCore"), perInstruction(t, output, "AllCores")
	return [][4]string{
		{"naive 256³ matmul", fmt.Sprintf("%.2f ns", one), "0.7 ns", "for a thread-instruction on one core"},
		{"  on two cores", ratio(one, two), "1.8", "times as fast"},
	}
}

// perInstruction is the time of one thread-instruction that a benchmark reports.
func perInstruction(t *testing.T, output []byte, benchmark string) float64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^BenchmarkMatmul` + benchmark + `\b.*\s([0-9.]+) ns/thread-inst`).FindSubmatch(output)
	if match == nil {
		t.Fatalf("the benchmark %s reports no ns/thread-inst:\n%s", benchmark, output)
	}
	value, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
