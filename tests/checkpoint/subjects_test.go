package checkpoint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// subject is a program that is saved and restored. It runs a number of steps, prints a line for
// each, and sleeps in between.
type subject struct {
	name string
	// program returns the command line, without steps and pause.
	program func(t *testing.T) []string
	// seconds is set if the pause is given in seconds, as in Python.
	seconds bool
	// before are arguments between steps and pause, after are arguments behind them.
	before, after []string
	steps         int
	// slowSteps is the number of first steps that take long. A short run does not disturb the program
	// until they are done.
	slowSteps int
}

var subjects = []subject{
	{name: "integers", program: cProgram("count.c"), before: []string{"50000"}, steps: 60},
	{name: "segments", program: cProgram("segments.c"), steps: 60},
	{name: "runtime", program: cudaProgram("mixed.cu"), steps: 60},
	{name: "modules", program: cudaProgram("modules.cu"), steps: 40},
	{name: "family", program: cProgram("family.c"), steps: 60},
	{name: "random", program: randomProgram, before: []string{"1"}, after: []string{"3", "60", "ungated"}, steps: 30},
	{name: "threads", program: pythonProgram("threads.py"), seconds: true, steps: 60},
	{name: "monitor", program: pythonProgram("monitor.py"), seconds: true, steps: 60},
	{name: "spawn", program: pythonProgram("pool.py"), seconds: true, after: []string{"spawn"}, steps: 60},
	{name: "forkserver", program: pythonProgram("pool.py"), seconds: true, after: []string{"forkserver"}, steps: 60},
	{name: "tinygrad", program: pythonProgram("train.py"), seconds: true, steps: 25, slowSteps: 4},
	{name: "eager", program: pythonProgram("train.py"), seconds: true, after: []string{"eager"}, steps: 12, slowSteps: 1},
	{name: "numba", program: frameworkProgram("with_numba.py"), seconds: true, steps: 40, slowSteps: 1},
	{name: "cupy", program: frameworkProgram("with_cupy.py"), seconds: true, steps: 40, slowSteps: 1},
	{name: "pycuda", program: pycudaProgram, seconds: true, steps: 40, slowSteps: 1},
}

func cProgram(source string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		return []string{harness.CompileC(t, true, harness.Workload("checkpoint", source))}
	}
}

func randomProgram(t *testing.T) []string {
	return []string{harness.CompileC(t, true, harness.Workload("random", "random.c"))}
}

func cudaProgram(source string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		return []string{harness.CompileCUDA(t, "static", harness.Workload("checkpoint", source))}
	}
}

func pythonProgram(script string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		python, err := harness.Tool("TINYGRAD_PYTHON")
		harness.Need(t, "tinygrad", err)
		return []string{python, harness.Workload("checkpoint", script)}
	}
}

func frameworkProgram(script string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		python, err := harness.Tool("FRAMEWORKS_PYTHON")
		harness.Need(t, "frameworks", err)
		return []string{python, harness.Workload("checkpoint", script)}
	}
}

func pycudaProgram(t *testing.T) []string {
	python, err := harness.Tool("PYCUDA_PYTHON")
	harness.Need(t, "pycuda", err)
	return []string{python, harness.Workload("checkpoint", "with_pycuda.py")}
}

// job prepares a run of the subject's program.
func (s *subject) job(t *testing.T, daemon *harness.Daemon, program []string, pause time.Duration) *harness.Job {
	t.Helper()
	between := fmt.Sprint(pause.Microseconds())
	if s.seconds {
		between = fmt.Sprint(pause.Seconds())
	}
	arguments := slices.Concat(program[1:], []string{fmt.Sprint(s.steps)}, s.before, []string{between}, s.after)
	job := daemon.Job(t, program[0], arguments...)
	job.Prepare = func(command *exec.Cmd) {
		command.Env = append(command.Env, "PYTHONDONTWRITEBYTECODE=1", "DEV=CUDA:PTX", "LD_LIBRARY_PATH="+libraries())
		command.Env = append(command.Env, compilers(filepath.Dir(job.Dir))...)
	}
	return job
}

// compilers returns settings for frameworks that compile at run time. Their cache may differ from
// run to run.
func compilers(caches string) []string {
	return []string{
		"CACHEDB=" + filepath.Join(
			caches,
			"cache.db",
		), "CUPY_CACHE_DIR=" + filepath.Join(caches, "cupy"), "PYCUDA_DISABLE_CACHE=1",
		"TMPDIR=" + caches, // pycuda keeps compiled code there
		"PATH=" + filepath.Dir(os.Getenv("NVCC")) + ":" + os.Getenv("PATH"),
		"NVCC_PREPEND_FLAGS=" + strings.Join(harness.HostCompiler(), " "), "NVCC_APPEND_FLAGS=--ptx -o kernel.cubin",
	}
}

func libraries() string {
	paths := []string{filepath.Join(harness.Bin(), "lib")}
	if nvcc := os.Getenv("NVCC"); nvcc != "" {
		paths = append(paths, filepath.Join(filepath.Dir(nvcc), "../lib"))
	}
	if others := os.Getenv("CUDA_LIBRARIES"); others != "" {
		paths = append(paths, others)
	}
	return strings.Join(paths, ":")
}
