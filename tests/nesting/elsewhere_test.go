package nesting

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/lab"
)

// inFront is a driver in front of ours, made of a source in tests/workloads/fault.
func inFront(t *testing.T, source string) string {
	t.Helper()
	if _, real := lab.Driver(); real {
		t.Skip("it is for a driver that is ours")
	}
	libraries := filepath.Join(lab.Bin(), "lib")
	return lab.Compile(t, lab.GCC, "-std=gnu11", "-O1", "-Wall", "-shared", "-fPIC", lab.Workload("fault", source),
		"-L"+libraries, "-Wl,--no-as-needed,-rpath,"+libraries, "-l:libcuda.so.1", "-ldl")
}

// TestShownElsewhere: host memory that the driver shows to devices at another address is refused by name, and stays registered nowhere.
func TestShownElsewhere(t *testing.T) {
	if !ownProcess(t, faulty("shown_elsewhere.c")) {
		return
	}
	b := openBehind(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "shared"))
	b.must(err)
	b.must(file.Truncate(gpu.ChunkBytes))
	memory, err := unix.Mmap(int(file.Fd()), 0, gpu.ChunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	b.must(err)
	for range 2 { // the second finds nothing of the first
		err = b.context.Memory().MapHost(uint64(reflect.ValueOf(memory).Pointer()), memory)
		if !errors.Is(err, abi.NotSupported) || !strings.Contains(err.Error(), "cannot use host pointers") {
			t.Errorf("it says %v", err)
		}
	}
	b.must(b.context.Fault())
}

// TestNoWishes: with a driver that places what is reserved where it likes, programs run all the same, and checkpoints find changes.
func TestNoWishes(t *testing.T) {
	if !ownProcess(t, faulty("no_wishes.c")) {
		return
	}
	b := openBehind(t) // which maps memory
	want := pattern(gpu.ChunkBytes)
	memory := b.context.Memory()
	_, err := memory.WriteAt(want, int64(b.memory.Address))
	b.must(err)
	got := make([]byte, len(want))
	_, err = memory.ReadAt(got, int64(b.memory.Address))
	b.must(err)
	if !bytes.Equal(got, want) {
		t.Error("memory differs")
	}
	digester := memory.(gpu.Digester)
	var key gpu.DigestKey
	digests, err := digester.Digests(key, []gpu.Range{{Address: b.memory.Address, Bytes: gpu.ChunkBytes}})
	b.must(err)
	if digests[0] != digester.DigestCopy(key, want) {
		t.Error("the digest differs")
	}
}
