package soft

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// registersOf loads a text and returns the number of registers of its kernels.
func registersOf(t *testing.T, text string) map[string]int32 {
	t.Helper()
	b := open(t, "soft:1", Options{})
	defer b.Close()
	c := newTestContext(t, b, 0)
	next := gpu.DefaultWindow(0, 1).Address
	place := func(_ string, bytes, _ uint64) (uint64, error) {
		r := gpu.Range{Address: next, Bytes: (bytes + gpu.ChunkBytes - 1) &^ (gpu.ChunkBytes - 1)}
		next = r.End()
		return r.Address, c.Memory().Map(r)
	}
	m, err := c.LoadModule(gpu.Image{PTX: []string{text}}, gpu.LoadOptions{Place: place})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int32{}
	for _, name := range m.Functions() {
		f, err := m.Function(name)
		if err != nil {
			t.Fatal(err)
		}
		counts[name] = f.Info().Attributes[abi.FuncNumRegs]
	}
	return counts
}

// TestRegistersLikeCompiler compares register counts with those that ptxas of CUDA 12.4 reports for
// sm_90 (ptxas -v). They may differ by a factor of two: a compiler also reorders and unrolls.
func TestRegistersLikeCompiler(t *testing.T) {
	const texts, suite = "../../../internal/ptx/testdata/", "../gputest/"
	for _, c := range []struct {
		file, kernel string
		ptxas        int32
	}{
		{texts + "nvcc_tiled.ptx", "choose", 9},
		{texts + "nvcc_tiled.ptx", "sum", 23},
		{texts + "nvcc_tiled.ptx", "bodies", 19},
		{texts + "tinygrad_elementwise.ptx", "E_11_3", 14},
		{texts + "tinygrad_half.ptx", "E_11_3", 12},
		{texts + "triton_matmul_half.ptx", "mm", 56},
		{texts + "triton_matmul_tf32.ptx", "mm", 80},
		{texts + "triton_softmax.ptx", "softmax", 18},
		{texts + "control.ptx", "control", 24},
		{texts + "memory.ptx", "memory", 28},
		{suite + "kernels.ptx", "count", 8},
		{suite + "kernels.ptx", "reverse", 10},
		{suite + "kernels.ptx", "scale", 12},
		{suite + "kernels.ptx", "store", 8},
	} {
		t.Run(c.kernel, func(t *testing.T) {
			text, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := registersOf(t, string(text))[c.kernel]; got > 2*c.ptxas || 2*got < c.ptxas {
				t.Errorf("got %d registers, ptxas allocates %d", got, c.ptxas)
			}
		})
	}
}

// manyLive returns a kernel that has live values at a time: it loads all and then stores all. With
// loop, the values are loaded before a loop and stored in it.
func manyLive(live int, loop bool, directives string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) %s\n{\n", directives)
	fmt.Fprintf(&b, ".reg .b64 %%a;\n.reg .pred %%p;\n.reg .b32 %%i, %%v<%d>;\nld.param.u64 %%a, [p];\n", live)
	for i := range live {
		fmt.Fprintf(&b, "ld.global.u32 %%v%d, [%%a+%d];\n", i, 4*i)
	}
	if loop {
		b.WriteString("mov.u32 %i, 9;\nL:\n")
	}
	for i := range live {
		fmt.Fprintf(&b, "st.global.u32 [%%a+%d], %%v%d;\n", 4*live+4*i, i)
	}
	if loop {
		b.WriteString("sub.u32 %i, %i, 1;\nsetp.ne.u32 %p, %i, 0;\n@%p bra L;\n")
	}
	b.WriteString("ret;\n}\n")
	return b.String()
}

// TestRegisterLimits checks what limits the number of registers: .maxnreg, and that a block of the
// largest allowed size must fit a multiprocessor of 65536 registers.
func TestRegisterLimits(t *testing.T) {
	for _, c := range []struct {
		name, directives string
		live             int
		loop             bool
		min, max         int32
	}{
		{"few", "", 4, false, 8, 16},
		{"some", "", 30, false, 30, 45},
		{"some in a loop", "", 30, true, 30, 45},
		{"many in blocks of 1024", "", 200, false, 64, 64},
		{"many in blocks of 128", ".maxntid 128", 200, false, 200, 220},
		{"many in blocks of 300", ".maxntid 300", 250, false, 216, 216},
		{"most", ".maxntid 32", 900, false, 255, 255},
		{"maxnreg", ".maxntid 128\n.maxnreg 40", 200, false, 40, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := registersOf(t, manyLive(c.live, c.loop, c.directives))["k"]; got < c.min || got > c.max {
				t.Errorf("got %d registers, want %d to %d", got, c.min, c.max)
			}
		})
	}
}
