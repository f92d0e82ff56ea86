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
	one, err := matmul(1)
	if err != nil {
		t.Log(err)
		return nil
	}
	two, err := matmul(2)
	if err != nil {
		t.Log(err)
		return nil
	}
	return [][4]string{
		{"naive 256³ matmul", fmt.Sprintf("%.2f ns", one), "0.7 ns", "for a thread-instruction on one core"},
		{"  on two cores", ratio(one, two), "1.8", "times as fast"},
	}
}

var perInstruction = regexp.MustCompile(`([0-9.]+) ns/thread-instruction`)

// matmul is the time of one thread-instruction, as the benchmark reports it.
func matmul(cores int) (float64, error) {
	command := lab.Command("go", "test", "-run", "^$", "-bench", "Matmul256", "-benchtime", "3x", "-cpu", strconv.Itoa(cores), "./daemon/gpu/soft/simt")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return 0, fmt.Errorf("benchmark: %w\n%s", err, output)
	}
	match := perInstruction.FindSubmatch(output)
	if match == nil {
		return 0, fmt.Errorf("the benchmark reports no ns/thread-instruction:\n%s", output)
	}
	return strconv.ParseFloat(string(match[1]), 64)
}
