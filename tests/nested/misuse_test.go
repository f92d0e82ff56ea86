package nested

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/hijack/abi"
)

// head is the beginning of PTX code.
const head = ".version 7.0\n.target sm_70\n.address_size 64\n"

// misuse is a backend with a second context on its other GPU.
type misuse struct {
	*backendTest
	other gpu.Context
}

// wantCode checks the code of an error.
func (m *misuse) wantCode(what string, err error, code abi.Result) {
	m.Helper()
	if !errors.Is(err, code) {
		m.Errorf("%s: got %v, want %s", what, err, code)
	}
}

// TestMisuse makes invalid requests to the backend. Each must fail with the right code, and the
// backend must still work.
func TestMisuse(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	m := &misuse{backendTest: openBackend(t)}
	var err error
	m.other, err = m.backend.NewContext(1, gpu.ContextOptions{})
	m.must(err)
	for _, part := range []func(){m.openings, m.unmapping, m.sharing, m.hosts, m.aliases, m.events, m.code, m.graphs} {
		part()
		s := m.stream()
		m.submit(s, m.fill(0, 3))
		m.must(s.Synchronize())
		m.must(m.context.Fault())
	}
	m.must(m.backend.Close())
	m.must(m.context.Close())
	_, err = m.backend.NewContext(0, gpu.ContextOptions{})
	m.wantCode("a context of a closed backend", err, abi.Deinitialized)
}

func (m *misuse) openings() {
	_, err := cuda.Open(cuda.Options{Library: filepath.Join(m.TempDir(), "other.so")})
	if !errors.Is(err, cudadrv.ErrLibrary) {
		m.Errorf("second driver in one process: %v", err)
	}
	small, err := ledger.Create(filepath.Join(m.TempDir(), "ledger"), []uint64{1 << 30})
	m.must(err)
	_, err = cuda.Open(cuda.Options{Library: library(), Ledger: small, Logger: slog.New(slog.DiscardHandler)})
	m.wantCode("ledger of fewer GPUs", err, abi.InvalidValue)
	m.must(small.Close())
	for _, ordinal := range []int{-1, 0, 2} {
		m.wantCode("unknown peer", m.context.(gpu.Peering).AllowPeer(ordinal, true), abi.InvalidDevice)
	}
}

// chunks returns a range of the window behind the mapped memory.
func (m *misuse) chunks(from, count uint64) gpu.Range {
	return gpu.Range{Address: m.memory.End() + from*gpu.ChunkBytes, Bytes: count * gpu.ChunkBytes}
}

func (m *misuse) unmapping() {
	memory, whole, middle := m.context.Memory(), m.chunks(0, 3), m.chunks(1, 1)
	m.must(memory.Map(whole))
	want := pattern(int(whole.Bytes))
	_, err := memory.WriteAt(want, int64(whole.Address))
	m.must(err)
	m.wantCode("a part of a chunk", memory.Unmap(gpu.Range{Address: whole.Address, Bytes: 4096}), abi.InvalidValue)
	m.wantCode("more than is mapped", memory.Unmap(m.chunks(0, 4)), abi.NotMapped)
	m.must(memory.Unmap(middle)) // both neighbours must stay mapped
	for _, side := range []gpu.Range{m.chunks(0, 1), m.chunks(2, 1)} {
		m.unmapDirty(side, want[side.Address-whole.Address:])
	}
	m.reclaimAll()
}

// reclaimAll reclaims all freed memory, so that later mappings are done at once.
func (m *misuse) reclaimAll() {
	done, err := m.context.Memory().(gpu.ReclaimableMemory).Reclaim()
	m.must(err)
	if !done {
		m.Error("some freed memory was not reclaimed")
	}
}

func (m *misuse) sharing() {
	memory, whole := m.context.Memory(), m.chunks(0, 2)
	sharer := memory.(gpu.Sharer)
	share := func(r gpu.Range) error {
		_, _, err := sharer.Share(r)
		return err
	}
	m.must(memory.Map(whole))
	m.wantCode("a part of a chunk", share(gpu.Range{Address: whole.Address, Bytes: 8}), abi.InvalidValue)
	m.wantCode("more than is mapped", share(m.chunks(0, 3)), abi.NotMapped)
	m.wantCode("part of a mapping", share(m.chunks(0, 1)), abi.NotSupported)
	file, offset, err := sharer.Share(whole)
	m.must(err)
	defer file.Close()
	m.wantCode("part of shared memory", memory.Unmap(m.chunks(0, 1)), abi.NotSupported)
	free := m.chunks(8, 2)
	m.wantCode(
		"to a part of a chunk",
		sharer.Import(gpu.Range{Address: free.Address, Bytes: 8}, file, offset),
		abi.InvalidValue,
	)
	m.wantCode("from its middle", sharer.Import(free, file, offset+gpu.ChunkBytes), abi.InvalidValue)
	m.wantCode("at a mapped address", sharer.Import(whole, file, offset), abi.AlreadyMapped)
	nothing, err := os.Open(os.DevNull)
	m.must(err)
	defer nothing.Close()
	if err := sharer.Import(free, nothing, 0); err == nil {
		m.Error("mapped memory of a file without any")
	}
	m.must(memory.Unmap(whole))
}

func (m *misuse) hosts() {
	shared, err := os.Create(filepath.Join(m.TempDir(), "shared"))
	m.must(err)
	defer shared.Close()
	m.must(shared.Truncate(2 * gpu.ChunkBytes))
	pages, err := unix.Mmap(int(shared.Fd()), 0, 2*gpu.ChunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	m.must(err)
	second, err := m.backend.NewContext(0, gpu.ContextOptions{})
	m.must(err)
	at := uint64(reflect.ValueOf(pages).Pointer())
	here, there, beside := m.context.Memory(), m.other.Memory(), second.Memory()
	m.wantCode("elsewhere", here.MapHost(at+4096, pages), abi.NotSupported)
	m.wantCode("nothing", here.UnmapHost(at), abi.NotMapped)
	m.must(here.MapHost(at, pages))
	m.wantCode("twice", here.MapHost(at, pages), abi.AlreadyMapped)
	m.wantCode("in its middle", here.MapHost(at+4096, pages[4096:]), abi.AlreadyMapped)
	m.wantCode("of another context", beside.UnmapHost(at), abi.NotMapped)
	m.must(beside.MapHost(at, pages))
	m.must(there.MapHost(at, pages)) // the other GPU has registered the memory already
	m.must(here.UnmapHost(at))
	m.must(beside.UnmapHost(at))
	m.must(there.UnmapHost(at))
	m.must(beside.MapHost(at, pages)) // freed with its context
	m.must(second.Close())
	m.must(here.MapHost(at, pages))
	m.must(here.UnmapHost(at))
	m.must(unix.Munmap(pages))
}

func (m *misuse) aliases() {
	home, other := m.context.Memory(), m.other.Memory()
	shown, hidden := m.chunks(4, 1), gpu.Range{Address: m.memory.Address, Bytes: gpu.ChunkBytes}
	alias := home.(gpu.Aliaser).Alias
	m.wantCode("not at a chunk", alias(shown.Address+4096, home, hidden, true), abi.InvalidValue)
	m.wantCode("of unmapped memory", alias(shown.Address, home, m.chunks(6, 1), true), abi.InvalidValue)
	m.wantCode("at a mapped address", alias(m.memory.Address, home, hidden, true), abi.AlreadyMapped)
	m.must(alias(shown.Address, home, hidden, true))
	m.wantCode("another alias", alias(shown.Address, home, m.memory, true), abi.AlreadyMapped)
	m.wantCode("alias of another context", other.(gpu.Aliaser).Unalias(shown.Address), abi.NotMapped)
	m.must(other.(gpu.Aliaser).Alias(shown.Address, home, hidden, false))
	m.must(other.(gpu.Aliaser).Unalias(shown.Address)) // the mapping of this GPU stays
	_, err := home.WriteAt([]byte{1}, int64(shown.Address))
	m.must(err)
	m.must(home.(gpu.Aliaser).Unalias(shown.Address))
}

func (m *misuse) events() {
	foreign, err := m.other.NewEvent(gpu.EventOptions{Timing: true})
	m.must(err)
	s := m.stream()
	m.wantCode("another context's event", s.Submit(gpu.Record{Event: foreign}), abi.InvalidHandle)
	m.must(foreign.Close())
	m.wantCode("closed twice", foreign.Close(), abi.InvalidHandle)
	fresh, err := m.context.NewEvent(gpu.EventOptions{Timing: true})
	m.must(err)
	resumable := m.context.(gpu.Resumable)
	if at, err := resumable.EventTime(fresh); err != nil || at.Recorded {
		m.Errorf("event that was not recorded: %v, %v", at, err)
	}
	held, open := m.heldStream()
	m.submit(held, gpu.Record{Event: fresh})
	_, err = resumable.EventTime(fresh)
	m.wantCode("event that is not complete", err, abi.NotReady)
	open()
	m.must(held.Synchronize())
	var ends [2]gpu.Event
	for i := range ends { // as in a restored session
		ends[i], err = m.context.NewEvent(gpu.EventOptions{
			Timing: true, Time: gpu.EventTime{Recorded: true, Clock: time.Duration(1+i) * time.Millisecond},
		})
		m.must(err)
	}
	if between, err := ends[1].ElapsedSince(ends[0]); err != nil || between != 1 {
		m.Errorf("got %v ms between events, want 1: %v", between, err)
	}
}

func (m *misuse) code() {
	load := func(image gpu.Image) error {
		_, err := m.context.LoadModule(image, gpu.LoadOptions{})
		return err
	}
	m.wantCode("no code", load(gpu.Image{}), abi.InvalidImage)
	m.wantCode(
		"managed variables",
		load(gpu.Image{PTX: []string{head + ".visible .global .attribute(.managed) .u32 both;\n"}}),
		abi.NotSupported,
	)
	m.wantCode("machine code of another GPU", load(gpu.Image{Cubin: machineCode(90)}), abi.NoBinaryForGPU)
	module, err := m.context.LoadModule(
		gpu.Image{PTX: []string{head + ".visible .entry idle() { ret; }\n"}},
		gpu.LoadOptions{HeapBytes: 8 << 20},
	)
	m.must(err)
	first, err := module.Function("idle")
	m.must(err)
	if again, err := module.Function("idle"); err != nil || again != first {
		m.Errorf("second query of a kernel: %v", err)
	}
	_, err = module.Function("absent")
	m.wantCode("unknown kernel", err, abi.NotFound)
	m.wantCode("unknown attribute", first.SetAttribute(-1, 0), abi.InvalidValue)
	m.wantCode("read-only attribute", first.SetAttribute(0, 1), abi.InvalidValue)
	_, err = first.ActiveBlocks(0, 0)
	m.wantCode("no threads", err, abi.InvalidValue)
	m.must(module.Close())
	m.wantCode("unloaded twice", module.Close(), abi.InvalidHandle)
}

// machineCode returns a file of machine code that has only a header.
func machineCode(sm byte) []byte {
	code := make([]byte, 64)
	copy(code, "\x7fELF\x02\x01\x01\x33\x07")
	code[16], code[18], code[20], code[48], code[52] = 2, 190, 1, sm, 64
	return code
}

func (m *misuse) graphs() {
	graph := &gpu.Graph{Nodes: []gpu.Node{{Work: m.fill(0, 1)}}}
	executable, err := m.context.Instantiate(graph)
	m.must(err)
	foreign, err := m.other.NewStream(gpu.StreamOptions{NonBlocking: true})
	m.must(err)
	m.wantCode("in another context's stream", executable.Launch(foreign), abi.InvalidHandle)
	s := m.stream()
	m.must(executable.Launch(s))
	m.must(s.Synchronize())
	m.must(executable.Close())
	m.wantCode("destroyed twice", executable.Close(), abi.InvalidHandle)
	m.must(foreign.Close())
}

// TestSilentDriver: the driver gives no reason why it does not load code. The backend reports what
// it knows. Features that need phos' own code fail; all others work.
func TestSilentDriver(t *testing.T) {
	if !ownProcess(t, faulty("silent.c")) {
		return
	}
	b := openBackend(t)
	for want, image := range map[string]gpu.Image{
		"the code is for sm_90 does not run on GPU 0": {Cubin: machineCode(90)},
		"the code is for sm_90 (it holds PTX of 12.0) does not run on GPU 0": {
			Cubin: machineCode(90),
			Holds: "PTX of 12.0",
		},
		"the code has no PTX (it holds nothing of use) does not run on GPU 0, ": {
			Whole: machineCode(80),
			Holds: "nothing of use",
		},
	} {
		_, err := b.context.LoadModule(image, gpu.LoadOptions{})
		if !errors.Is(err, abi.NoBinaryForGPU) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := b.context.Memory().(gpu.Digester).Digests(gpu.DigestKey{1}, []gpu.Range{b.memory}); !errors.Is(
		err,
		abi.NoBinaryForGPU,
	) {
		t.Errorf("digests without their kernel: %v", err)
	}
	s := b.stream()
	b.submit(s, b.fill(0, 3))
	b.must(s.Synchronize())
}
