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

// subject is a program that is saved and brought back: it does so many steps, prints a line for
// each, and rests in between.
type subject struct {
	name string
	// program makes the command line, without steps and rest.
	program func(t *testing.T) []string
	// seconds says that the rest is given in seconds, as Python has it.
	seconds bool
	// before comes between steps and rest, after behind them.
	before, after []string
	steps         int
	// dear are first steps that take long: a short run leaves the program alone until they are done.
	dear int
}

var subjects = []subject{
	{name: "integers", program: ofC("count.c"), before: []string{"50000"}, steps: 60},
	{name: "segments", program: ofC("segments.c"), steps: 60},
	{name: "runtime", program: ofCUDA("mixed.cu"), steps: 60},
	{name: "modules", program: ofCUDA("modules.cu"), steps: 40},
	{name: "family", program: ofC("family.c"), steps: 60},
	{name: "random", program: ofRandom, before: []string{"1"}, after: []string{"3", "60", "ungated"}, steps: 30},
	{name: "threads", program: ofPython("threads.py"), seconds: true, steps: 60},
	{name: "monitor", program: ofPython("monitor.py"), seconds: true, steps: 60},
	{name: "spawn", program: ofPython("pool.py"), seconds: true, after: []string{"spawn"}, steps: 60},
	{name: "forkserver", program: ofPython("pool.py"), seconds: true, after: []string{"forkserver"}, steps: 60},
	{name: "tinygrad", program: ofPython("train.py"), seconds: true, steps: 25, dear: 4},
	{name: "eager", program: ofPython("train.py"), seconds: true, after: []string{"eager"}, steps: 12, dear: 1},
	{name: "numba", program: ofFramework("with_numba.py"), seconds: true, steps: 40, dear: 1},
	{name: "cupy", program: ofFramework("with_cupy.py"), seconds: true, steps: 40, dear: 1},
	{name: "pycuda", program: ofPycuda, seconds: true, steps: 40, dear: 1},
}

func ofC(source string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		return []string{harness.CompileC(t, true, harness.Workload("checkpoint", source))}
	}
}

func ofRandom(t *testing.T) []string {
	return []string{harness.CompileC(t, true, harness.Workload("random", "random.c"))}
}

func ofCUDA(source string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		return []string{harness.CompileCUDA(t, "static", harness.Workload("checkpoint", source))}
	}
}

func ofPython(script string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		python, err := harness.Tool("TINYGRAD_PYTHON")
		harness.Need(t, "tinygrad", err)
		return []string{python, harness.Workload("checkpoint", script)}
	}
}

func ofFramework(script string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		python, err := harness.Tool("FRAMEWORKS_PYTHON")
		harness.Need(t, "frameworks", err)
		return []string{python, harness.Workload("checkpoint", script)}
	}
}

func ofPycuda(t *testing.T) []string {
	python, err := harness.Tool("PYCUDA_PYTHON")
	harness.Need(t, "pycuda", err)
	return []string{python, harness.Workload("checkpoint", "with_pycuda.py")}
}

// job prepares a run of the subject's program.
func (s *subject) job(t *testing.T, daemon *harness.Daemon, program []string, rest time.Duration) *harness.Job {
	t.Helper()
	between := fmt.Sprint(rest.Microseconds())
	if s.seconds {
		between = fmt.Sprint(rest.Seconds())
	}
	arguments := slices.Concat(program[1:], []string{fmt.Sprint(s.steps)}, s.before, []string{between}, s.after)
	job := daemon.Job(t, program[0], arguments...)
	job.Prepare = func(command *exec.Cmd) {
		command.Env = append(command.Env, "PYTHONDONTWRITEBYTECODE=1", "DEV=CUDA:PTX", "LD_LIBRARY_PATH="+libraries())
		command.Env = append(command.Env, compilers(filepath.Dir(job.Dir))...)
	}
	return job
}

// compilers are settings of frameworks that compile when they run. What one run leaves in its
// cache, another need not.
func compilers(caches string) []string {
	return []string{
		"CACHEDB=" + filepath.Join(
			caches,
			"cache.db",
		), "CUPY_CACHE_DIR=" + filepath.Join(caches, "cupy"), "PYCUDA_DISABLE_CACHE=1",
		"TMPDIR=" + caches, // pycuda keeps some of what it compiles
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
