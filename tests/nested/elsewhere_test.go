package nested

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness"
)

// frontDriver compiles a driver that wraps ours, from a source in tests/workloads/fault. flags are
// for the compiler.
func frontDriver(t *testing.T, source string, flags ...string) string {
	t.Helper()
	if _, real := harness.Driver(); real {
		t.Skip("needs our own driver")
	}
	return frontOfOurs(t, source, flags...)
}

// frontOfOurs is frontDriver, also if the other tests run on another driver.
func frontOfOurs(t testing.TB, source string, flags ...string) string {
	t.Helper()
	libraries := filepath.Join(harness.Bin(), "lib")
	return harness.Compile(
		t,
		harness.GCC,
		slices.Concat([]string{"-std=gnu11", "-O1", "-Wall", "-shared", "-fPIC"}, flags, []string{
			harness.Workload(
				"fault",
				source,
			), "-L" + libraries, "-Wl,--no-as-needed,-rpath," + libraries, "-l:libcuda.so.1", "-ldl",
		})...)
}

// TestHostMappedElsewhere: host memory whose device address differs is refused with the reason, and
// is not left registered.
func TestHostMappedElsewhere(t *testing.T) {
	if !ownProcess(t, faulty("shown_elsewhere.c")) {
		return
	}
	b := openBackend(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "shared"))
	b.must(err)
	b.must(file.Truncate(gpu.ChunkBytes))
	memory, err := unix.Mmap(int(file.Fd()), 0, gpu.ChunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	b.must(err)
	for range 2 { // the second must find nothing of the first
		err = b.context.Memory().MapHost(uint64(reflect.ValueOf(memory).Pointer()), memory)
		if !errors.Is(err, abi.NotSupported) || !strings.Contains(err.Error(), "cannot use host pointers") {
			t.Errorf("got %v", err)
		}
	}
	b.must(b.context.Fault())
}

// TestUnfitGPUs: a driver with unusable GPUs is refused, and its resources are released.
func TestUnfitGPUs(t *testing.T) {
	for name, want := range map[string]string{
		"PIECES": "memory granularity is 12582912 bytes",
		"FAR":    "no free range of 68719476736 bytes of addresses below the program",
	} {
		t.Run(name, func(t *testing.T) {
			if !ownProcess(t, faulty("unfit.c", "-D"+name)) {
				return
			}
			if _, err := cuda.Open(cuda.Options{Library: library(), Logger: logger()}); !errors.Is(
				err,
				cuda.ErrUnfit,
			) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestIgnoredAddressHints: the driver ignores address hints. Programs run all the same, and
// checkpoints find changes.
func TestIgnoredAddressHints(t *testing.T) {
	if !ownProcess(t, faulty("no_hints.c")) {
		return
	}
	b := openBackend(t) // it maps memory
	want := pattern(gpu.ChunkBytes)
	memory := b.context.Memory()
	_, err := memory.WriteAt(want, int64(b.memory.Address))
	b.must(err)
	got := make([]byte, len(want))
	_, err = memory.ReadAt(got, int64(b.memory.Address))
	b.must(err)
	if !bytes.Equal(got, want) {
		t.Error("the memory differs")
	}
	digester := memory.(gpu.Digester)
	var key gpu.DigestKey
	digests, err := digester.Digests(key, []gpu.Range{{Address: b.memory.Address, Bytes: gpu.ChunkBytes}})
	b.must(err)
	if digests[0] != digester.DigestCopy(key, want) {
		t.Error("the digest differs")
	}
}

// TestDriverWithoutKernelNames runs programs over a driver that does not list kernels or their
// parameters, like those of CUDA 12.0. phos reads both from the code: from PTX, and from machine
// code whose PTX the driver has too.
func TestDriverWithoutKernelNames(t *testing.T) {
	// The machine code must match the capability of software GPUs; otherwise the driver would use
	// the PTX.
	programs := map[string]string{}
	for name, target := range map[string]string{
		"text": "arch=compute_90,code=compute_90", "machine code": "arch=compute_90,code=[sm_90,compute_90]",
	} {
		programs[name] = harness.Compile(
			t,
			harness.CUDA,
			"-O2",
			"-std=c++17",
			"-cudart=static",
			"-gencode="+target,
			harness.Workload("cuda", "layouts.cu"),
		)
	}
	o := newFaultPlan(t)
	daemon := harness.StartOver(t, harness.StartAlone(t, "--gpus=soft:1"), o.library)
	for name, program := range programs {
		for _, call := range []string{"cuFuncGetParamInfo", "cuModuleGetFunctionCount", "cuFuncGetName"} {
			t.Run(name+"/"+call, func(t *testing.T) {
				o.fail(call, 1, alwaysThis, abi.NotSupported)
				daemon.Program(program).In(t).OK()
				if o.failed() == 0 {
					t.Error("the driver did not get the call")
				}
			})
		}
	}
	daemon.Empty()
}
