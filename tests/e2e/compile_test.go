package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// workload is the path of a program's source.
func workload(elements ...string) string {
	return lab.Path(append([]string{"tests", "workloads"}, elements...)...)
}

// compile runs a compiler and returns the program it made.
func compile(t *testing.T, compiler string, arguments ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	command := exec.Command(compiler, append(arguments, "-o", program)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, output)
	}
	// Other users run it too.
	if err := os.Chmod(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(program)), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

func nvcc(t *testing.T) string {
	t.Helper()
	path, err := lab.Tool("NVCC")
	lab.Need(t, "nvcc", err)
	return path
}

// compileC makes a program of the driver API: linked with libcuda.so.1, or opening it by name.
func compileC(t *testing.T, linked bool, source string) string {
	t.Helper()
	include := filepath.Join(filepath.Dir(nvcc(t)), "../include")
	lab.Need(t, "build", lab.Built())
	arguments := []string{"-std=gnu11", "-O1", "-Wall", "-I", include, source, "-lm"}
	if linked {
		arguments = append(arguments, "-L"+filepath.Join(lab.Bin(), "lib"), "-l:libcuda.so.1")
	} else {
		arguments = append(arguments, "-DDLOPEN", "-ldl")
	}
	return compile(t, "gcc", arguments...)
}

// compileCUDA makes a program of the runtime API; cudart is "shared" or "static".
func compileCUDA(t *testing.T, cudart, source string) string {
	t.Helper()
	arguments := append(hostCompiler(), "-O2", "-std=c++17", "-arch=compute_75", "-cudart="+cudart, source)
	return compile(t, nvcc(t), arguments...)
}

// hostCompiler tells nvcc which compiler to use, where the default one is too new for it.
func hostCompiler() []string {
	if host := os.Getenv("NVCC_CCBIN"); host != "" {
		return []string{"-ccbin", host}
	}
	return nil
}
