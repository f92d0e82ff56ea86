package harness

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Workload returns the path of a program's source.
func Workload(elements ...string) string {
	return Path(append([]string{"tests", "workloads"}, elements...)...)
}

// NVCC returns the compiler of CUDA programs, or skips the test.
func NVCC(t testing.TB) string {
	t.Helper()
	path, err := Tool("NVCC")
	Need(t, "nvcc", err)
	return path
}

// CUDALibraries returns the directory of CUDA's runtime library: beside its compiler, or, on a
// machine without a compiler, the directory in CUDA_LIBRARIES.
func CUDALibraries(t testing.TB) string {
	t.Helper()
	if libraries := os.Getenv("CUDA_LIBRARIES"); libraries != "" {
		return libraries
	}
	return filepath.Join(filepath.Dir(NVCC(t)), "../lib")
}

// Compiler is a compiler that tests use.
type Compiler string

// The system's C compiler, and NVIDIA's compiler.
const (
	GCC Compiler = "gcc"
	// CUDA is nvcc with a host compiler that it supports.
	CUDA Compiler = "nvcc"
)

// Compile compiles a program that other users may run too, and returns its path. If PHOS_COMPILED
// names a directory, programs are cached there. Machines without compilers use that cache.
func Compile(t testing.TB, compiler Compiler, arguments ...string) string {
	t.Helper()
	program := cachedProgram(t, compiler, arguments)
	if program == "" {
		program = filepath.Join(t.TempDir(), productOf(arguments))
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	allowTraverse(t, filepath.Dir(filepath.Dir(program)))
	allowTraverse(t, filepath.Dir(program))
	if _, err := os.Stat(program); err != nil {
		compile(t, program, compiler, arguments)
	} else if compileOnly() {
		now := time.Now() // marks the cached program as used
		_ = os.Chtimes(program, now, now)
	}
	return program
}

// productOf is the name of what a compiler makes: nvcc knows an object by it.
func productOf(arguments []string) string {
	if slices.Contains(arguments, "-c") {
		return "program.o"
	}
	return "program"
}

// allowTraverse lets other users traverse a test's directory.
func allowTraverse(t testing.TB, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// compile compiles a program. A failure ends the test.
func compile(t testing.TB, program string, compiler Compiler, arguments []string) {
	t.Helper()
	// CUDA's headers are beside its compiler.
	path, more := string(compiler), []string{"-I", filepath.Join(filepath.Dir(NVCC(t)), "../include")}
	if compiler == CUDA {
		path, more = NVCC(t), HostCompiler()
	}
	// Rename only when the file is complete: tests run in parallel.
	fresh := filepath.Join(filepath.Dir(program), rand.Text()+filepath.Ext(program))
	command := exec.Command(path, append(append(more, arguments...), "-o", fresh)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, output)
	}
	if err := os.Rename(fresh, program); err != nil {
		t.Fatal(err)
	}
}

// headers are the headers that any program may include.
var headers = regexp.MustCompile(`\.(h|cuh)$`)

// cachedProgram returns where a compiled program is cached. The key is a digest of the arguments,
// the files among them, and all headers.
func cachedProgram(t testing.TB, compiler Compiler, arguments []string) string {
	t.Helper()
	dir := os.Getenv("PHOS_COMPILED")
	if dir == "" {
		return ""
	}
	name := sha256.New()
	fmt.Fprintln(name, compiler, strings.NewReplacer(repository()+"/", "", dir+"/", "").Replace(strings.Join(arguments, " ")))
	add := func(path string) error {
		text, err := os.ReadFile(path)
		fmt.Fprintf(name, "%x\n", sha256.Sum256(text))
		return err
	}
	for _, argument := range arguments {
		if info, err := os.Stat(argument); err == nil && info.Mode().IsRegular() {
			if err := add(argument); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, place := range []string{"tests/workloads", "tests/bench/testdata"} {
		err := filepath.WalkDir(Path(place), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || !headers.MatchString(path) {
				return err
			}
			return add(path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, fmt.Sprintf("%x", name.Sum(nil)[:16]), productOf(arguments))
}

// compileOnly reports whether the tests run only to fill the cache of compiled programs.
func compileOnly() bool { return os.Getenv("PHOS_ONLY_COMPILE") != "" }

// CompileC compiles a program that uses the driver API. It links with libcuda.so.1, or opens it by
// name.
func CompileC(t testing.TB, linked bool, source string) string {
	t.Helper()
	Need(t, "build", Built())
	arguments := []string{"-std=gnu11", "-O1", "-Wall", source, "-lm"}
	if linked {
		arguments = append(arguments, "-L"+filepath.Join(Bin(), "lib"), "-l:libcuda.so.1")
	} else {
		arguments = append(arguments, "-DDLOPEN", "-ldl")
	}
	return Compile(t, GCC, arguments...)
}

// CompileCUDA compiles a program that uses the runtime API; cudart is "shared" or "static".
func CompileCUDA(t testing.TB, cudart, source string) string {
	t.Helper()
	object := Compile(t, CUDA, "-O2", "-std=c++17", "-arch=compute_75", "-c", source)
	return Compile(t, CUDA, "-arch=compute_75", "-cudart="+cudart, object)
}

// ChangeBuildID returns a program with the same code and another build id.
func ChangeBuildID(t testing.TB, program []byte) []byte {
	t.Helper()
	// The content of the note follows its type and owner.
	mark := []byte("\x03\x00\x00\x00GNU\x00")
	at := bytes.Index(program, mark)
	if at < 0 {
		t.Fatal("the program has no build id")
	}
	other := bytes.Clone(program)
	other[at+len(mark)] ^= 1
	return other
}

// HostCompiler returns nvcc's option for a host compiler, if the default one is too new.
func HostCompiler() []string {
	if host := os.Getenv("NVCC_CCBIN"); host != "" {
		return []string{"-ccbin", host}
	}
	return nil
}
