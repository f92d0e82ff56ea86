package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// TestCUDA runs every C++ workload, with either form of the runtime library.
func TestCUDA(t *testing.T) {
	daemon := harness.Start(t)
	sources, err := filepath.Glob(harness.Workload("cuda", "*.cu"))
	if err != nil || len(sources) == 0 {
		t.Fatal("no workloads", err)
	}
	for _, source := range sources {
		for _, cudart := range []string{"static", "shared"} {
			name := strings.TrimSuffix(filepath.Base(source), ".cu")
			t.Run(name+"/"+cudart, func(t *testing.T) {
				if name == "managed" {
					harness.RealGPU(
						t,
						"code with managed variables is refused, because they cannot be shared with other processes",
					)
				}
				program := daemon.Program(harness.CompileCUDA(t, cudart, source))
				program.Env = append(
					program.Env,
					"LD_LIBRARY_PATH="+filepath.Join(harness.Bin(), "lib")+":"+harness.CUDALibraries(t),
				)
				program.In(t).OK()
				expectLines(t, source, program.Output.String())
			})
		}
	}
	daemon.Empty()
}

// expectLines checks that a program printed the lines that its source announces, in this order.
func expectLines(t *testing.T, source, output string) {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	rest := output
	for _, match := range regexp.MustCompile(`(?m)^// expect: (.*)$`).FindAllSubmatch(text, -1) {
		line := string(match[1]) + "\n"
		at := strings.Index(rest, line)
		if at < 0 {
			t.Fatalf("%q is missing or out of order:\n%s", line, output)
		}
		rest = rest[at+len(line):]
	}
}

func TestDriverAPI(t *testing.T) {
	daemon := harness.Start(t)
	t.Run("linked", func(t *testing.T) {
		daemon.Program(harness.CompileC(t, true, harness.Workload("driver", "vector.c"))).In(t).OK()
	})
	t.Run("dlopen", func(t *testing.T) {
		daemon.Program(harness.CompileC(t, false, harness.Workload("driver", "vector.c"))).In(t).OK()
	})
	t.Run("linker", func(t *testing.T) {
		daemon.Program(harness.CompileC(t, true, harness.Workload("driver", "link.c"))).In(t).OK()
	})
	for _, name := range []string{"virtual", "shared", "private", "handles", "expandable"} {
		t.Run(name, func(t *testing.T) {
			daemon.Program(harness.CompileC(t, true, harness.Workload("driver", name+".c"))).In(t).OK()
		})
	}
	t.Run("page", func(t *testing.T) {
		harness.RealGPU(t, "a page can only be registered once")
		for _, name := range []string{"shared.c", "private.c"} {
			daemon.Program(harness.CompileC(t, true, harness.Workload("driver", name)), "page").In(t).OK()
		}
	})
	t.Run("go", func(t *testing.T) {
		_, missing := exec.LookPath("go")
		harness.Need(t, "go", missing)
		t.Setenv("CGO_ENABLED", "1")
		program := filepath.Join(t.TempDir(), "program")
		build := harness.Command("go", "build", "-o", program, "./tests/workloads/driver/_go")
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		daemon.Program(program).In(t).OK()
	})
	daemon.Empty()
}

func TestTinygrad(t *testing.T) {
	python, err := harness.Tool("TINYGRAD_PYTHON")
	harness.Need(t, "tinygrad", err)
	daemon := harness.Start(t)
	trainings, step := []string{"convnet", "transformer"}, rounds.Of(2, 1)
	for i := rounds.First(step); i < len(trainings); i += step {
		t.Run(trainings[i], func(t *testing.T) {
			tinygrad(t, daemon, python, harness.Workload("tinygrad", trainings[i]+".py")).OK()
		})
	}
	t.Run("operators", func(t *testing.T) {
		step := rounds.Of(3, 1)
		some := []string{fmt.Sprint(rounds.First(step)), fmt.Sprint(step)}
		tinygrad(t, daemon, python, harness.Workload("tinygrad", "operators.py"), some...).OK()
	})
	t.Run("own tests", func(t *testing.T) {
		sources, err := filepath.Glob(filepath.Join(filepath.Dir(python), "../source/tinygrad-*/test/test_*.py"))
		if err != nil || len(sources) == 0 {
			t.Fatal("found no tests in tinygrad's source", err)
		}
		for _, source := range sources {
			program := tinygrad(t, daemon, python, source)
			_ = program.Run() // failures are read from the output
			output := program.Output.String()
			t.Log(passRate(output))
			checkFailures(t, output)
		}
	})
	daemon.Empty()
}

// tinygrad prepares a script on tinygrad's CUDA device with its PTX renderer.
func tinygrad(t *testing.T, daemon *harness.Daemon, python, script string, arguments ...string) *harness.Program {
	program := daemon.Program(python, append([]string{script}, arguments...)...).In(t)
	program.Env = append(
		program.Env,
		"DEV=CUDA:PTX",
		"PYTHONDONTWRITEBYTECODE=1",
		"CACHEDB="+filepath.Join(t.TempDir(), "cache.db"),
	)
	return program
}

// checkFailures requires that every test passed.
func checkFailures(t *testing.T, output string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^(?:ERROR|FAIL): (\w+)`).FindAllStringSubmatch(output, -1) {
		t.Errorf("%s failed:\n%s", match[1], output)
	}
	if !strings.Contains(output, "Ran ") {
		t.Errorf("no test ran:\n%s", output)
	}
}

// passRate reads the last lines of Python's unittest.
func passRate(output string) string {
	ran := regexp.MustCompile(`Ran (\d+) tests?`).FindString(output)
	closing := regexp.MustCompile(`(?m)^(OK|FAILED).*$`).FindString(output)
	return ran + ": " + closing
}
