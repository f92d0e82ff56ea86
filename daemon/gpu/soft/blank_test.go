package soft

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness"
)

const blankText = `.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 filled = 7;
.visible .entry store(.param .u64 at, .param .u8 last) .maxntid 96, 1, 1
{
	.reg .b64 %a;
	ld.param.u64 %a, [at];
	st.global.u32 [%a], 1;
	ret;
}
.visible .entry other() .reqntid 8, 4, 2
{
	ret;
}
`

// assembled returns the machine code of blankText.
func assembled(t *testing.T, target string) []byte {
	t.Helper()
	nvcc, err := harness.Tool("NVCC")
	harness.Need(t, "nvcc", err)
	text, code := filepath.Join(t.TempDir(), "k.ptx"), filepath.Join(t.TempDir(), "k.cubin")
	must(t, os.WriteFile(text, []byte(blankText), 0o644))
	assembler := filepath.Join(filepath.Dir(nvcc), "ptxas")
	if said, err := exec.Command(assembler, "-arch="+target, "-o", code, text).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	data, err := os.ReadFile(code)
	must(t, err)
	return data
}

// TestBlank loads machine code: its kernels have their names, parameters and limits, and do
// nothing; PTX still runs.
func TestBlank(t *testing.T) {
	b := open(t, "soft:1,blank", Options{})
	defer b.Close()
	c, memory := newTestContext(t, b, 0), chunks(0, 4, 1)
	must(t, c.Memory().Map(memory))
	place := func(string, uint64, uint64) (uint64, error) { return memory.Address + 4096, nil }
	params := make([]byte, 9)
	binary.LittleEndian.PutUint64(params, memory.Address)
	launch := gpu.Launch{Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{96, 1, 1}, Params: params}
	stream := newTestStream(t, c)
	for _, step := range []struct {
		image gpu.Image
		want  uint32
	}{
		{gpu.Image{Cubin: assembled(t, "sm_90"), PTX: []string{blankText}}, 0},
		{gpu.Image{PTX: []string{blankText}}, 1},
	} {
		m, err := c.LoadModule(step.image, gpu.LoadOptions{Place: place})
		must(t, err)
		if got := m.Functions(); !slices.Equal(got, []string{"other", "store"}) {
			t.Errorf("kernels: %q", got)
		}
		f, err := m.Function("store")
		must(t, err)
		want := []gpu.Param{{Offset: 0, Bytes: 8}, {Offset: 8, Bytes: 1}}
		if info := f.Info(); !slices.Equal(info.Params, want) || info.Attributes[abi.FuncMaxThreadsPerBlock] != 96 {
			t.Errorf("kernel: %+v", info)
		}
		launch.Function = f
		must(t, stream.Submit(launch))
		must(t, c.Synchronize())
		if got := word(t, c, memory.Address); got != step.want {
			t.Errorf("the kernel has stored %d, want %d", got, step.want)
		}
		if got := word(t, c, memory.Address+4096); got != 7 {
			t.Errorf("the variable is %d, want 7", got)
		}
		other, err := m.Function("other")
		must(t, err)
		if err := stream.Submit(gpu.Launch{Function: other, Grid: launch.Grid, Block: launch.Block}); !errors.Is(err, abi.InvalidValue) {
			t.Errorf("a block of another shape: got %v", err)
		}
	}
}

// TestBlankClusters launches a cluster, which fits devices of capability 9.0.
func TestBlankClusters(t *testing.T) {
	cluster := abi.LaunchAttribute{ID: abi.LaunchCluster}
	binary.LittleEndian.PutUint32(cluster.Value[:], 2)
	for capability, want := range map[string]error{"9.0": nil, "8.0": abi.NotSupported} {
		b := open(t, "soft:1,blank,cc="+capability, Options{})
		defer b.Close()
		c := newTestContext(t, b, 0)
		code := assembled(t, "sm_"+strings.ReplaceAll(capability, ".", ""))
		place := func(string, uint64, uint64) (uint64, error) { return chunks(0, 4, 1).Address, nil }
		must(t, c.Memory().Map(chunks(0, 4, 1)))
		m, err := c.LoadModule(gpu.Image{Cubin: code}, gpu.LoadOptions{Place: place})
		must(t, err)
		f, err := m.Function("store")
		must(t, err)
		err = newTestStream(t, c).Submit(gpu.Launch{
			Function: f, Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: make([]byte, 9),
			Attributes: []abi.LaunchAttribute{cluster},
		})
		if !errors.Is(err, want) {
			t.Errorf("capability %s: got %v, want %v", capability, err, want)
		}
	}
}

// TestBlankRefuses loads code for another architecture, and machine code where none is taken.
func TestBlankRefuses(t *testing.T) {
	code := assembled(t, "sm_80")
	for spec, part := range map[string]string{"soft:1,blank": "the blank GPU has compute capability 9.0", "soft:1,cc=8.0": "PTX only"} {
		b := open(t, spec, Options{})
		defer b.Close()
		_, err := newTestContext(t, b, 0).LoadModule(gpu.Image{Cubin: code}, gpu.LoadOptions{})
		if !errors.Is(err, abi.NoBinaryForGPU) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want %q", spec, err, part)
		}
	}
}

// word reads four bytes of the device's memory.
func word(t *testing.T, c gpu.Context, address uint64) uint32 {
	t.Helper()
	var data [4]byte
	_, err := c.Memory().ReadAt(data[:], int64(address))
	must(t, err)
	return binary.LittleEndian.Uint32(data[:])
}
