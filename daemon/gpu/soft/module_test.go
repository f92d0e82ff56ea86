package soft

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestRefusedCode: code that a software GPU cannot run is refused with an error that says what would run it.
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
		"nothing":           {gpu.Image{}, abi.InvalidImage, []string{"no code"}},
		"newer device":      {gpu.Image{PTX: []string{".version 8.8\n.target sm_120\n.address_size 64\n"}}, abi.NoBinaryForGPU, []string{"sm_120", "9.0"}},
		"newer version":     {gpu.Image{PTX: []string{".version 9.5\n.target sm_90\n.frob 7\n"}}, abi.UnsupportedPTXVersion, []string{"9.5"}},
		"error in a text":   {gpu.Image{PTX: []string{head + ".visible .entry k() { frob.u32; }"}}, abi.InvalidPTX, []string{"line 4", "frob"}},
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
					t.Errorf("log %q does not say %q", refused.Log, part)
				}
			}
		})
	}
}

// TestLaterCode: PTX for a later device runs where a real one would run the machine code beside it.
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
		t.Errorf("the kernel is said to be for %d", version)
	}
}
