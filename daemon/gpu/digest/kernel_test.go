package digest_test

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/hijack/abi"
)

// device is a software GPU with some chunks of memory, and one more for the kernel.
type device struct {
	t      testing.TB
	memory gpu.Memory
	base   uint64
	kernel *digest.Kernel
}

func openDevice(t testing.TB, chunks, multiprocessors int, areaBytes uint64) *device {
	t.Helper()
	backend, err := soft.Open("soft:1,memory=1GiB", soft.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, backend.Close()) })
	context, err := backend.NewContext(0, gpu.ContextOptions{})
	must(t, err)
	d := &device{t: t, memory: context.Memory(), base: gpu.DefaultWindow(0, 1).Address}
	must(t, d.memory.Map(gpu.Range{Address: d.base, Bytes: uint64(chunks+1) * gpu.ChunkBytes}))
	d.kernel, err = digest.Load(context, gpu.Range{Address: d.at(chunks), Bytes: areaBytes}, multiprocessors)
	must(t, err)
	t.Cleanup(func() { must(t, d.kernel.Close()) })
	return d
}

func (d *device) at(chunk int) uint64 { return d.base + uint64(chunk)*gpu.ChunkBytes }

func (d *device) write(chunk int, content []byte) {
	d.t.Helper()
	_, err := d.memory.WriteAt(content, int64(d.at(chunk)))
	must(d.t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noise(seed uint64) []byte {
	content := make([]byte, gpu.ChunkBytes)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(content)
	return content
}

// TestKernel compares the kernel's digests with those of Func, for several keys, contents, orders
// of chunks, grid sizes and numbers of launches.
func TestKernel(t *testing.T) {
	const chunks = 5
	for name, c := range map[string]struct {
		multiprocessors int
		areaBytes       uint64
	}{
		"one launch":       {0, gpu.ChunkBytes},
		"one block":        {1, gpu.ChunkBytes},
		"several launches": {0, 24656 + 8 + 2*24},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDevice(t, chunks, c.multiprocessors, c.areaBytes)
			contents := [chunks][]byte{1: make([]byte, gpu.ChunkBytes), 2: noise(2), 3: noise(3), 4: noise(4)}
			contents[0] = make([]byte, gpu.ChunkBytes)
			for i := range contents[0] {
				contents[0][i] = 0xff
			}
			copy(contents[4][3<<18:], make([]byte, 1<<20))
			for i, content := range contents {
				d.write(i, content)
			}
			for range 2 {
				key := digest.NewKey()
				order := append(rand.Perm(chunks), 2)
				addresses := make([]uint64, len(order))
				for i, chunk := range order {
					addresses[i] = d.at(chunk)
				}
				got, err := d.kernel.Digests(key, addresses)
				must(t, err)
				for i, chunk := range order {
					if want := digest.New(key).Of(contents[chunk]); got[i] != want {
						t.Errorf("chunk %d: %x, want %x", chunk, got[i], want)
					}
				}
			}
		})
	}
}

// TestAssembles checks that NVIDIA's assembler accepts the kernel for the oldest and for newer
// GPUs, without register spills.
func TestAssembles(t *testing.T) {
	nvcc := os.Getenv("NVCC")
	if nvcc == "" {
		t.Skip("NVCC is not set; ./build.sh test installs it and sets it")
	}
	for _, target := range []string{"sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90"} {
		output, err := exec.Command(
			filepath.Join(filepath.Dir(nvcc), "ptxas"),
			"-v",
			"-arch="+target,
			"-o",
			"/dev/null",
			"kernel.ptx",
		).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", target, err, output)
		}
		if !bytes.Contains(output, []byte("0 bytes spill stores, 0 bytes spill loads")) {
			t.Errorf("%s:\n%s", target, output)
		}
	}
}

// TestFault checks that an unmapped chunk is a fault, and that later calls fail too.
func TestFault(t *testing.T) {
	d := openDevice(t, 2, 0, gpu.ChunkBytes)
	if _, err := d.kernel.Digests(digest.NewKey(), []uint64{d.at(0), d.at(7)}); gpu.Code(err) != abi.IllegalAddress {
		t.Errorf("digest of an unmapped chunk: %v", err)
	}
	if _, err := d.kernel.Digests(digest.NewKey(), []uint64{d.at(0)}); gpu.Code(err) != abi.IllegalAddress {
		t.Errorf("after a fault: %v", err)
	}
}

// TestArea checks that memory that is too small or misaligned for the kernel is refused.
func TestArea(t *testing.T) {
	backend, err := soft.Open("soft:1,memory=64MiB", soft.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer backend.Close()
	context, err := backend.NewContext(0, gpu.ContextOptions{})
	must(t, err)
	base := gpu.DefaultWindow(0, 1).Address
	for _, area := range []gpu.Range{{}, {Address: base, Bytes: 24656}, {Address: base + 8, Bytes: gpu.ChunkBytes}} {
		if _, err := digest.Load(context, area, 0); gpu.Code(err) != abi.InvalidValue {
			t.Errorf("%+v: %v", area, err)
		}
	}
}
