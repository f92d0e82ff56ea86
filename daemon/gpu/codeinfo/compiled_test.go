package codeinfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/internal/ptx"
	"github.com/phos-gpu/phos/tests/harness"
)

// assemblersVariable lists assemblers of other CUDA versions to test, separated by colons.
const assemblersVariable = "PHOS_TEST_PTXAS"

// TestCompiled reads machine code of real compilers and compares the result with the declarations
// in its source text.
func TestCompiled(t *testing.T) {
	nvcc := needNVCC(t)
	assemblers := []string{filepath.Join(filepath.Dir(nvcc), "ptxas")}
	if more := os.Getenv(assemblersVariable); more != "" {
		assemblers = append(assemblers, strings.Split(more, ":")...)
	}
	for _, source := range []string{"signatures", "large"} {
		text := filepath.Join(t.TempDir(), source+".ptx")
		runNVCC(t, nvcc, "-ptx", "-arch=compute_75", "-o", text, filepath.Join("testdata", source+".cu"))
		for _, assembler := range assemblers {
			for _, target := range targets(t, assembler) {
				for _, option := range []string{"-O3", "-g", "-c"} {
					t.Run(
						strings.Join([]string{source, target, option}, " "),
						func(t *testing.T) { testAssembled(t, assembler, text, target, option) },
					)
				}
			}
		}
	}
}

// TestLinked reads kernels that were compiled separately and linked, which have other section names
// and symbols.
func TestLinked(t *testing.T) {
	nvcc := needNVCC(t)
	dir := t.TempDir()
	source, object, linked := filepath.Join(
		"testdata",
		"large.cu",
	), filepath.Join(
		dir,
		"large.o",
	), filepath.Join(
		dir,
		"large.cubin",
	)
	text := filepath.Join(dir, "large.ptx")
	runNVCC(t, nvcc, "-ptx", "-rdc=true", "-arch=compute_80", "-o", text, source)
	runNVCC(t, nvcc, "-dc", "-arch=sm_80", "-o", object, source)
	runNVCC(t, nvcc, "-dlink", "-cubin", "-arch=sm_80", "-o", linked, object)
	agree(t, read(t, text), read(t, linked))
}

func needNVCC(t *testing.T) string {
	t.Helper()
	nvcc, err := harness.Tool("NVCC")
	harness.Need(t, "nvcc", err)
	return nvcc
}

func runNVCC(t *testing.T, nvcc string, arguments ...string) {
	t.Helper()
	run(t, nvcc, append(harness.HostCompiler(), arguments...)...)
}

func run(t *testing.T, program string, arguments ...string) {
	t.Helper()
	if said, err := exec.Command(program, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, said)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// targets returns the targets that an assembler supports.
func targets(t *testing.T, assembler string) (supported []string) {
	t.Helper()
	help, err := exec.Command(assembler, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{
		"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103",
		"sm_110", "sm_120", "sm_120a", "sm_121",
	} {
		if strings.Contains(string(help), "'"+target+"'") {
			supported = append(supported, target)
		}
	}
	if len(supported) < 3 {
		t.Fatalf("%s knows only %v", assembler, supported)
	}
	return supported
}

func testAssembled(t *testing.T, assembler, text, target, option string) {
	cubin := filepath.Join(t.TempDir(), "cubin")
	run(t, assembler, "-arch="+target, option, "-o", cubin, text)
	agree(t, read(t, text), read(t, cubin))
}

// agree compares machine code with its source text.
func agree(t *testing.T, text, cubin []byte) {
	t.Helper()
	module, err := ptx.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	source, code := gpu.Image{PTX: []string{string(text)}}, gpu.Image{Cubin: cubin}
	for what, list := range map[string]func(gpu.Image) []string{"variables": Variables, "kernels": Kernels} {
		want, got := slices.Sorted(slices.Values(list(source))), slices.Sorted(slices.Values(list(code)))
		if !slices.Equal(want, got) || len(want) == 0 {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	if want, got := Managed(source), Managed(code); want != got {
		t.Errorf("managed: %q, want %q", got, want)
	}
	kernels := 0
	for _, f := range module.Funcs {
		if !f.Entry {
			continue
		}
		kernels++
		got, err := Params(code, f.Name)
		if want := entryParams(f); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", f.Name, got, err, want)
		}
	}
	if len(Kernels(code)) != kernels {
		t.Errorf("%d kernels, want %d", len(Kernels(code)), kernels)
	}
}
