package soft

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestRefusedCode checks the errors for code that a software GPU cannot run. Each must say what
// would run it.
func TestRefusedCode(t *testing.T) {
	cubin := make([]byte, 64)
	copy(cubin, "\x7fELF\x02\x01")
	cubin[8] = 7
	binary.LittleEndian.PutUint16(cubin[18:], 190)
	cubin[48] = 80
	const head = ".version 8.0\n.target sm_90\n.address_size 64\n"
	for name, c := range map[string]struct {
		image gpu.Image
		code  abi.Result
		log   []string
	}{
		"machine code": {gpu.Image{Cubin: cubin}, abi.NoBinaryForGPU, []string{"sm_80", "needs a real GPU", "PTX only"}},
		"newer PTX beside it": {
			gpu.Image{Cubin: cubin, Holds: "PTX sm_120, machine code sm_80"},
			abi.NoBinaryForGPU,
			[]string{"no PTX for compute capability 9.0 or lower, only PTX sm_120, machine code sm_80", "needs a real GPU"},
		},
		"nothing": {gpu.Image{}, abi.InvalidImage, []string{"no code"}},
		"newer device": {
			gpu.Image{PTX: []string{".version 8.8\n.target sm_120\n.address_size 64\n"}},
			abi.NoBinaryForGPU,
			[]string{"sm_120", "9.0"},
		},
		"newer version": {
			gpu.Image{PTX: []string{".version 9.5\n.target sm_90\n.frob 7\n"}},
			abi.UnsupportedPTXVersion,
			[]string{"9.5"},
		},
		"error in a text": {
			gpu.Image{PTX: []string{head + ".visible .entry k() { frob.u32; }"}},
			abi.InvalidPTX,
			[]string{"line 4", "frob"},
		},
		"second of several": {gpu.Image{PTX: []string{head, head + "junk"}}, abi.InvalidPTX, []string{"text 2 of 2: line 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, "soft:1", Options{})
			defer b.Close()
			_, err := newTestContext(t, b, 0).LoadModule(c.image, gpu.LoadOptions{})
			var refused *gpu.LoadError
			if !errors.Is(err, c.code) || gpu.Code(err) != c.code || !errors.As(err, &refused) {
				t.Fatalf("got %v (%s), want %s", err, gpu.Code(err), c.code)
			}
			for _, part := range c.log {
				if !strings.Contains(refused.Log, part) {
					t.Errorf("log %q does not contain %q", refused.Log, part)
				}
			}
		})
	}
}

// TestLaterCode loads PTX for a newer device next to machine code that a real device of this
// capability would run.
func TestLaterCode(t *testing.T) {
	b := open(t, "soft:1", Options{})
	defer b.Close()
	text := ".version 8.7\n.target sm_100\n.address_size 64\n.visible .entry k() { ret; }\n"
	m, err := newTestContext(t, b, 0).LoadModule(gpu.Image{PTX: []string{text}, Cubin: []byte{0}}, gpu.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function("k")
	if err != nil {
		t.Fatal(err)
	}
	if version := f.Info().Attributes[abi.FuncPTXVersion]; version != 100 {
		t.Errorf("PTX version: got %d, want 100", version)
	}
}

// TestLibraryCode loads a text of library size: only kernels that are looked up are parsed, and
// each reports its own errors.
func TestLibraryCode(t *testing.T) {
	b := open(t, "soft:1", Options{})
	defer b.Close()
	const library = ".version 8.0\n.target sm_90\n.address_size 64\n.global .b32 x;\n" +
		".extern .func (.param .b64 p) malloc (.param .b64 n);\n.func wrong() { frob.u32 1; }\n" +
		".visible .entry good(.param .u64 p, .param .u32 n) { .reg .b32 %r; mov.u32 %r, %envreg2; ret; }\n" +
		".visible .entry bad() { frob.u32; ret; }\n.visible .entry calls() { call wrong; ret; }\n"
	text := library + strings.Repeat("// as long as the code of many more kernels\n", outlineBytes/40)
	var placed []string
	place := func(name string, bytes, _ uint64) (uint64, error) {
		placed = append(placed, name)
		return gpu.DefaultWindow(0, 1).Address + uint64(len(placed))<<24, nil
	}
	m, err := newTestContext(t, b, 0).LoadModule(gpu.Image{PTX: []string{text}}, gpu.LoadOptions{Place: place})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(placed, " "); len(placed) != 3 || placed[0] != "x" {
		t.Errorf("placed %s, want the variable, a heap for malloc, and workspaces of cooperative launches", got)
	}
	if got := strings.Join(m.Functions(), " "); got != "bad calls good" {
		t.Errorf("kernels: got %s, want bad calls good", got)
	}
	f, err := m.Function("good")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := m.Function("good"); again != f || f.Info().ParamBytes != 12 || len(f.Info().Params) != 2 {
		t.Errorf("second lookup: got %v, want %v", again, f.Info())
	}
	for _, name := range []string{"bad", "calls", "bad"} {
		var refused *gpu.LoadError
		if _, err := m.Function(name); gpu.Code(err) != abi.InvalidPTX || !errors.As(err, &refused) ||
			!strings.Contains(refused.Log, "kernel "+name+": line") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.Function("none"); gpu.Code(err) != abi.NotFound {
		t.Errorf("look up missing kernel: got %v, want NOT_FOUND", err)
	}
	broken := gpu.Image{PTX: []string{text + ".frob"}}
	_, err = newTestContext(t, b, 0).LoadModule(broken, gpu.LoadOptions{Place: place})
	if gpu.Code(err) != abi.InvalidPTX {
		t.Errorf("load library with an error outside of kernels: got %v, want INVALID_PTX", err)
	}
}
