package lab

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Workload is the path of a program's source.
func Workload(elements ...string) string {
	return Path(append([]string{"tests", "workloads"}, elements...)...)
}

// NVCC is the compiler of CUDA programs, or skips the test.
func NVCC(t testing.TB) string {
	t.Helper()
	path, err := Tool("NVCC")
	Need(t, "nvcc", err)
	return path
}

// Compile runs a compiler and returns the program it made, which other users may run too.
func Compile(t testing.TB, compiler string, arguments ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	command := exec.Command(compiler, append(arguments, "-o", program)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, output)
	}
	for _, dir := range []string{filepath.Dir(program), filepath.Dir(filepath.Dir(program))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return program
}

// CompileC makes a program of the driver API: linked with libcuda.so.1, or opening it by name.
func CompileC(t testing.TB, linked bool, source string) string {
	t.Helper()
	include := filepath.Join(filepath.Dir(NVCC(t)), "../include")
	Need(t, "build", Built())
	arguments := []string{"-std=gnu11", "-O1", "-Wall", "-I", include, source, "-lm"}
	if linked {
		arguments = append(arguments, "-L"+filepath.Join(Bin(), "lib"), "-l:libcuda.so.1")
	} else {
		arguments = append(arguments, "-DDLOPEN", "-ldl")
	}
	return Compile(t, "gcc", arguments...)
}

// CompileCUDA makes a program of the runtime API; cudart is "shared" or "static".
func CompileCUDA(t testing.TB, cudart, source string) string {
	t.Helper()
	arguments := append(HostCompiler(), "-O2", "-std=c++17", "-arch=compute_75", "-cudart="+cudart, source)
	return Compile(t, NVCC(t), arguments...)
}

// OtherBuild is a program that does the same, but by its build id another one.
func OtherBuild(t testing.TB, program []byte) []byte {
	t.Helper()
	// Type and owner of the note, and its content behind them.
	mark := []byte("\x03\x00\x00\x00GNU\x00")
	at := bytes.Index(program, mark)
	if at < 0 {
		t.Fatal("the program has no build id")
	}
	other := bytes.Clone(program)
	other[at+len(mark)] ^= 1
	return other
}

// HostCompiler tells nvcc which compiler to use, where the default one is too new for it.
func HostCompiler() []string {
	if host := os.Getenv("NVCC_CCBIN"); host != "" {
		return []string{"-ccbin", host}
	}
	return nil
}
