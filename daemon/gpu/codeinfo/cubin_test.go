package codeinfo

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadCubin compares with what the assembler prints of registers and shared memory, and with
// the text for the rest.
func TestReadCubin(t *testing.T) {
	nvcc := needNVCC(t)
	assembler := filepath.Join(filepath.Dir(nvcc), "ptxas")
	text := filepath.Join("testdata", "resources.ptx")
	for _, target := range []string{"sm_75", "sm_80", "sm_90"} {
		t.Run(target, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "k.cubin")
			said, err := exec.Command(assembler, "-v", "-arch="+target, "-o", path, text).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			cubin, err := ReadCubin(read(t, path))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, k := range cubin.Kernels {
				got[k.Name] = fmt.Sprintf("%d registers, %d bytes", k.Registers, k.SharedBytes)
			}
			if want := printed(string(said)); !maps.Equal(got, want) || len(want) == 0 {
				t.Errorf("got %v, want %v\n%s", got, want, said)
			}
			checkShapes(t, cubin)
			checkVariables(t, cubin)
		})
	}
}

var (
	compiling = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	used      = regexp.MustCompile(`Used (\d+) registers(?:.*?(\d+) bytes smem)?`)
)

// printed reads the assembler's output.
func printed(said string) map[string]string {
	found := map[string]string{}
	var name string
	for line := range strings.Lines(said) {
		if m := compiling.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		if m := used.FindStringSubmatch(line); m != nil {
			found[name] = m[1] + " registers, " + max(m[2], "0") + " bytes"
		}
	}
	return found
}

func checkShapes(t *testing.T, cubin *Cubin) {
	t.Helper()
	for _, k := range cubin.Kernels {
		var limit, required [3]uint32
		switch k.Name {
		case "bounded":
			limit = [3]uint32{96, 1, 1}
		case "required":
			required = [3]uint32{8, 4, 2}
		}
		if k.MaxThreads != limit || k.RequiredThreads != required {
			t.Errorf("%s: at most %v, only %v; want %v, %v", k.Name, k.MaxThreads, k.RequiredThreads, limit, required)
		}
	}
}

func checkVariables(t *testing.T, cubin *Cubin) {
	t.Helper()
	var found []string
	for _, v := range cubin.Variables {
		text := fmt.Sprintf("%s %d", v.Name, v.Bytes)
		if v.Constant {
			text += " constant"
		}
		if v.Managed {
			text += " managed"
		}
		if len(v.Content) >= 4 {
			text += fmt.Sprintf(" begins with %d", binary.LittleEndian.Uint32(v.Content))
		}
		found = append(found, text)
	}
	slices.Sort(found)
	want := []string{"filled 4 begins with 7", "shared_word 4 managed", "table 16 constant begins with 3", "zeros 4096"}
	if !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}
