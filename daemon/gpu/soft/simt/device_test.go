package simt_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// TestDirtyBitsWhileRunning clears dirty bits and copies chunks while a kernel writes, as a
// checkpoint does. In the end, every chunk that differs from its copy must be dirty.
func TestDirtyBitsWhileRunning(t *testing.T) {
	const chunks = 8
	m := newMachine(t)
	area := gpu.Range{Address: windowBase + 8*gpu.ChunkBytes, Bytes: chunks * gpu.ChunkBytes}
	k := m.kernel(m.link(body(`
	mov.u32 %r2, %ctaid.x;
	mad.lo.u32 %r3, %r2, 1103515245, %r1;
	mov.u32 %r4, 0;
L:	mad.lo.u32 %r3, %r3, 1664525, 1013904223;
	shr.u32 %r5, %r3, 10;
	mul.wide.u32 %rd3, %r5, 4;
	add.s64 %rd3, %rd3, %rd1;
	st.global.u32 [%rd3], %r3;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p1, %r4, 3000;
	@%p1 bra L;
	ret;`)), "k")
	// Addresses are 22-bit word indices: 16 MiB, the size of the area.
	copies := make([]byte, area.Bytes)
	done := make(chan error, 1)
	go func() {
		done <- simt.NewEngine(simt.Options{Cores: 2}).Run(context.Background(), k, simt.Launch{
			Grid:  [3]uint32{16, 1, 1},
			Block: [3]uint32{64, 1, 1}, Params: params(area.Address),
		}, m.memory, nil)
	}()
	rounds := 0
	for running := true; running; rounds++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
			for i := range uint64(chunks) {
				r := gpu.Range{Address: area.Address + i*gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
				m.memory.ClearDirty(r)
				if _, err := m.memory.ReadAt(copies[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes], int64(r.Address)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	now := make([]byte, area.Bytes)
	if _, err := m.memory.ReadAt(now, int64(area.Address)); err != nil {
		t.Fatal(err)
	}
	dirty := m.memory.Dirty(area)
	for i := range uint64(chunks) {
		changed := string(
			now[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes],
		) != string(
			copies[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes],
		)
		if changed && dirty[0]>>i&1 == 0 {
			t.Errorf("chunk %d changed after it was copied and is not dirty (%d rounds)", i, rounds)
		}
	}
}

func TestKernelTouchesAbsentChunks(t *testing.T) {
	memory, err := space.New(gpu.Range{Address: windowBase, Bytes: 8 * gpu.ChunkBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	m := &machine{t: t, memory: memory, next: windowBase}
	var fills atomic.Int32
	err = memory.MapAbsent(
		gpu.Range{Address: windowBase, Bytes: 8 * gpu.ChunkBytes},
		func(_ uint64, chunk []byte) error {
			fills.Add(1)
			for i := range chunk {
				chunk[i] = 1
			}
			return nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	k := m.kernel(m.link(body(`
	mov.u32 %r2, %ctaid.x;
	mul.wide.u32 %rd3, %r2, 2097152;
	add.s64 %rd2, %rd2, %rd3;
	ld.global.u32 %r3, [%rd2];
	add.u32 %r3, %r3, %r1;
	st.global.u32 [%rd2], %r3;
	ret;`)), "k")
	err = simt.NewEngine(simt.Options{Cores: 2}).Run(context.Background(), k, simt.Launch{
		Grid:  [3]uint32{5, 1, 1},
		Block: [3]uint32{64, 1, 1}, Params: params(windowBase),
	}, memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := fills.Load(); n != 5 {
		t.Errorf("got %d chunks filled, want 5", n)
	}
	if dirty := memory.Dirty(memory.Window())[0]; dirty != 0b11111 {
		t.Errorf("dirty bits: got %b, want 11111", dirty)
	}
	for i := range uint64(5) {
		if got := m.read32(windowBase+i*gpu.ChunkBytes, 64); got[63] != 0x01010101+63 {
			t.Errorf("chunk %d, word 63: got %#x, want %#x", i, got[63], 0x01010101+63)
		}
	}
}

func TestDeterministic(t *testing.T) {
	// Float sums by atomics depend on the order of blocks and lanes. Two runs must give the same bits.
	sums := func() []uint32 {
		m := newMachine(t)
		k := m.kernel(m.link(body(`
	mov.u32 %r2, %ctaid.x;
	mad.lo.u32 %r3, %r2, 256, %r1;
	cvt.rn.f32.u32 %f1, %r3;
	rcp.rn.f32 %f1, %f1;
	min.f32 %f1, %f1, 0f3F800000;
	red.global.add.f32 [%rd1], %f1;
	ret;`)), "k")
		engine := simt.NewEngine(simt.Options{Cores: 2, Deterministic: true})
		out := m.alloc(256)
		var all sync.WaitGroup
		for i := range uint64(4) {
			all.Go(func() {
				err := engine.Run(context.Background(), k, simt.Launch{
					Grid: [3]uint32{50, 1, 1}, Block: [3]uint32{256, 1, 1},
					Params: params(out + 4*i),
				}, m.memory, nil)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return m.read32(out, 4)
	}
	first, second := sums(), sums()
	if !slices.Equal(first, second) || first[0] == 0 || first[0] != first[3] {
		t.Errorf("got %#x in the second run, want %#x", second, first)
	}
}

func TestPinnedAndPeerMemory(t *testing.T) {
	m := newMachine(t)
	pinned := make([]byte, 4096)
	const at = 0x6000_0000_0000
	if err := m.memory.MapHost(at, pinned); err != nil {
		t.Fatal(err)
	}
	k := m.kernel(m.link(body("st.u32 [%rd2], %r1;\nret;")), "k")
	launch := simt.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{64, 1, 1}, Params: params(at)}
	engine := simt.NewEngine(simt.Options{})
	if err := engine.Run(context.Background(), k, launch, m.memory, nil); err != nil || pinned[4*63] != 63 {
		t.Fatalf("word in pinned memory: got %d, error %v", pinned[4*63], err)
	}
	launch.Params = params(at + 4096 - 64)
	err := engine.Run(context.Background(), k, launch, m.memory, nil)
	var fault *simt.Fault
	if !errors.As(err, &fault) || fault.Kind != abi.IllegalAddress || fault.Address != at+4096 {
		t.Errorf("store past the end of pinned memory: got %v, want ILLEGAL_ADDRESS", err)
	}
}

func TestLinkSeveralModules(t *testing.T) {
	m := newMachine(t)
	parse := func(text string) *ptx.Module {
		module, err := ptx.Parse(header + text)
		if err != nil {
			t.Fatal(err)
		}
		return module
	}
	library := parse(`
.visible .global .align 4 .u32 shift = 5;
.global .align 8 .u64 where = shift;
.visible .func (.param .b32 r) twice(.param .b32 n)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [n]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }`)
	program := parse(`
.extern .global .align 4 .u32 shift;
.extern .func (.param .b32 r) twice(.param .b32 n);
.visible .entry k(.param .u64 out)
{` + prologue + `
	{
	.param .b32 a;
	.param .b32 b;
	st.param.b32 [a], %r1;
	call.uni (b), twice, (a);
	ld.param.b32 %r3, [b];
	}
	ld.global.u32 %r4, [shift];
	add.u32 %r3, %r3, %r4;
	st.global.u32 [%rd2], %r3;
	ret;
}`)
	if _, err := simt.Link([]*ptx.Module{program}, m.place, m.memory); err == nil || !errors.Is(err, abi.InvalidPTX) {
		t.Errorf("an undefined symbol: %v", err)
	}
	linked, err := simt.Link([]*ptx.Module{program, library}, m.place, m.memory)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.read64(linked.Globals()["where"].Address, 1)[0]; got != linked.Globals()["shift"].Address {
		t.Errorf("an initialiser holds %#x", got)
	}
	out := m.alloc(256)
	err = simt.NewEngine(simt.Options{}).Run(context.Background(), m.kernel(linked, "k"), simt.Launch{
		Grid:  [3]uint32{1, 1, 1},
		Block: [3]uint32{32, 1, 1}, Params: params(out),
	}, m.memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range m.read32(out, 32) {
		if got != uint32(2*i+5) {
			t.Fatalf("thread %d: %d", i, got)
		}
	}
	if _, err := simt.Link([]*ptx.Module{library, library}, m.place, m.memory); err == nil ||
		!strings.Contains(err.Error(), "twice") {
		t.Errorf("defined twice: %v", err)
	}
}

// TestLinkSamples links what real compilers emit, and one of everything that the front end accepts.
func TestLinkSamples(t *testing.T) {
	samples, err := filepath.Glob("../../../../internal/ptx/testdata/*.ptx")
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, sample := range samples {
		text, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		module, err := ptx.Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", sample, err)
		}
		m := newMachine(t)
		_, err = simt.Link([]*ptx.Module{module}, m.place, m.memory)
		if err != nil && !strings.Contains(err.Error(), "is not defined") {
			t.Errorf("%s: %v", sample, err)
		}
	}
}

func TestInfo(t *testing.T) {
	m := newMachine(t)
	info := m.kernel(m.link(header+`
.visible .entry k(.param .u32 n, .param .u64 out, .param .align 8 .b8 s[12]) .maxntid 128, 2, 1
{ .shared .b32 x[10]; .local .b32 y[3]; .reg .b32 %r<2>;
  ld.shared.u32 %r1, [x]; st.local.u32 [y], %r1; ret; }`), "k").Info()
	if info.Name != "k" || len(info.Params) != 3 || info.Params[2] != (gpu.Param{Offset: 16, Bytes: 12}) {
		t.Errorf("%+v", info)
	}
	for attribute, want := range map[abi.FunctionAttribute]int32{
		abi.FuncMaxThreadsPerBlock: 256, abi.FuncSharedBytes: 40,
		abi.FuncPTXVersion: 90, abi.FuncBinaryVersion: 90,
	} {
		if got := info.Attributes[attribute]; got != want {
			t.Errorf("attribute %d: got %d, want %d", attribute, got, want)
		}
	}
	dynamic := m.kernel(m.link(header+`
.extern .shared .align 4 .b8 rest[];
.visible .entry k()
{ .shared .b32 x[10]; .reg .b32 %r<2>; ld.shared.u32 %r1, [x]; st.shared.u32 [rest], %r1; ret; }`), "k").Info()
	if got := dynamic.Attributes[abi.FuncSharedBytes]; got != 48 {
		t.Errorf("before dynamic shared memory: %d bytes, which must end at a multiple of 16", got)
	}
}

// TestMultiprocessors has %nsmid agree with what the device says, and %smid stay below it, however
// many cores run blocks.
func TestMultiprocessors(t *testing.T) {
	for _, options := range []simt.Options{{Cores: 2, Multiprocessors: 16}, {Cores: 3, Multiprocessors: 2}, {Cores: 2}} {
		m := newMachine(t)
		k := m.kernel(m.link(body(`
	mov.u32 %r2, %smid;
	mov.u32 %r3, %nsmid;
	red.global.max.u32 [%rd1], %r2;
	red.global.add.u32 [%rd1+4], %r3;
	ret;`)), "k")
		out := m.alloc(256)
		err := simt.NewEngine(options).Run(context.Background(), k, simt.Launch{
			Grid:  [3]uint32{100, 1, 1},
			Block: [3]uint32{32, 1, 1}, Params: params(out),
		}, m.memory, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := uint32(options.Multiprocessors)
		if want == 0 {
			want = uint32(options.Cores)
		}
		if got := m.read32(out, 2); got[0] >= want || got[1] != want*3200 {
			t.Errorf("%+v: the largest %%smid is %d, the sum of %%nsmid %d", options, got[0], got[1])
		}
	}
}
