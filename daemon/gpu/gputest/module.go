package gputest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testLaunch(_ *testing.T, b *bench) {
	const n = 10_000
	in, want := make([]uint32, n), make([]uint32, n)
	for i := range in {
		in[i] = uint32(i) * 7
		want[i] = in[i]*5*3 + 11
	}
	src, dst := b.load(words(in...)), b.alloc(4*n)
	b.run(launch(b.kernel("scale"), (n+255)/256, 256, dst, src, uint32(n), uint8(5), 11.5))
	b.same("scale", b.read(dst, 4*n), words(want...))

	data := b.load(words(in[:512]...))
	reverse := launch(b.kernel("reverse"), 4, 128, data)
	reverse.SharedBytes = 4 * 128
	b.run(reverse)
	for block := range slices.Chunk(in[:512], 128) {
		slices.Reverse(block)
	}
	b.same("reverse", b.read(data, 4*512), words(in[:512]...))
}

func testGlobals(t *testing.T, b *bench) {
	m := b.mustModule(kernelsPTX)
	globals := m.Globals()
	counter, table := globals["counter"], globals["table"]
	if counter.Bytes != 4 || table.Bytes != 16 || counter.Address%4 != 0 || table.Address%8 != 0 {
		t.Fatalf("globals: %+v", globals)
	}
	b.same("counter before", b.read(counter.Address, 4), words(5))
	b.same("table", b.read(table.Address, 16), []byte{1, 2, 3, 4, 5, 6, 7, 8, 15: 0})
	b.run(launch(b.function(m, "count"), 10, 100))
	b.same("counter after", b.read(counter.Address, 4), words(1005))
	if factor, visible := globals["factor"]; visible {
		b.same("constant", b.read(factor.Address, 4), words(3))
	}
	other := b.mustModule(kernelsPTX)
	b.same("counter of another module", b.read(other.Globals()["counter"].Address, 4), words(5))
	functions := m.Functions()
	if !slices.IsSorted(functions) || !slices.Contains(functions, "scale") || slices.Contains(functions, "vprintf") {
		t.Errorf("functions: %v", functions)
	}
	_, err := m.Function("absent")
	b.want("function that does not exist", err, abi.NotFound)
}

// testInitialVariables checks that variables without an initial value are zero, each time that code
// is loaded.
func testInitialVariables(_ *testing.T, b *bench) {
	const text = ".version 7.0\n.target sm_70\n.address_size 64\n" +
		".visible .global .align 4 .u32 word;\n.visible .global .align 8 .b8 large[3000000];\n" +
		".visible .const .align 4 .u32 constant;\n.visible .entry k() { ret; }\n"
	for range 3 {
		m := b.mustModule(text)
		for name, r := range m.Globals() {
			b.same(name, b.read(r.Address, int(r.Bytes)), make([]byte, r.Bytes))
			b.write(r.Address, noise(1, int(r.Bytes)))
		}
		b.must(m.Close())
	}
}

// testNarrowAddresses checks that an address in shared or local memory wraps modulo 2^32.
func testNarrowAddresses(_ *testing.T, b *bench) {
	const text = `.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<6>;
	.reg .b64 %a;
	.shared .align 4 .b8 area[256];
	ld.param.u64 %a, [out];
	mov.u32 %r1, area;
	add.u32 %r2, %r1, 64;
	st.shared.u32 [%r2], 77;
	sub.u32 %r3, %r1, 64;
	ld.shared.u32 %r4, [%r3+128];
	atom.shared.add.u32 %r5, [%r3+128], 1;
	st.global.u32 [%a], %r4;
	ld.shared.u32 %r4, [%r2];
	st.global.u32 [%a+4], %r4;
	ret;
}`
	out := b.alloc(8)
	b.run(launch(b.function(b.mustModule(text), "k"), 1, 1, out))
	b.same("words of shared memory", b.read(out, 8), words(77, 78))
}

func testLinkedTexts(_ *testing.T, b *bench) {
	const head = ".version 7.0\n.target sm_70\n.address_size 64\n"
	main := head + `
.extern .global .align 4 .u32 shared_counter;
.extern .func (.param .b32 out) twice (.param .b32 in);
.visible .entry both(.param .u64 address)
{
	.reg .b32 %r<4>;
	.reg .b64 %a;
	ld.param.u64 %a, [address];
	ld.global.u32 %r1, [shared_counter];
	{
		.param .b32 p;
		st.param.b32 [p], %r1;
		.param .b32 q;
		call.uni (q), twice, (p);
		ld.param.b32 %r2, [q];
	}
	st.global.u32 [%a], %r2;
	ret;
}`
	library := head + `
.visible .global .align 4 .u32 shared_counter = 21;
.visible .func (.param .b32 out) twice (.param .b32 in)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [in];
	add.u32 %r2, %r1, %r1;
	st.param.b32 [out], %r2;
	ret;
}`
	out := b.alloc(4)
	b.run(launch(b.function(b.mustModule(main, library), "both"), 1, 1, out))
	b.same("result of both texts", b.read(out, 4), words(42))
	_, err := b.module(main)
	b.want("text with unresolved symbols", err, abi.InvalidPTX)
}

func testPrintf(t *testing.T, b *bench) {
	b.run(launch(b.kernel("say"), 5, 1))
	lines := strings.Split(strings.TrimSuffix(b.printed(), "\n"), "\n")
	slices.Sort(lines) // blocks run in any order
	if got := strings.Join(lines, "|"); got != "block 0|block 1|block 2|block 3|block 4" {
		t.Errorf("printed %q", got)
	}
	// Waiting for an event also flushes device printf.
	s, e, before := b.newStream(), b.newEvent(false), len(b.printed())
	b.submit(s, launch(b.kernel("say"), 1, 1), gpu.Record{Event: e})
	b.must(e.Synchronize())
	if got := b.printed()[before:]; got != "block 0\n" {
		t.Errorf("printed before an event: %q", got)
	}
}

func testRefusedModules(t *testing.T, b *bench) {
	for name, c := range map[string]struct {
		text string
		code abi.Result
		log  []string
	}{
		"unknown instruction": {
			strings.Replace(kernelsPTX, "add.u32 %r1, %r1, 1;", "frobnicate.u32 %r1, 1;", 1), abi.InvalidPTX,
			[]string{"frobnicate", "line"},
		},
		"undeclared register": {
			strings.Replace(kernelsPTX, "mov.u32 %r1, 0;", "mov.u32 %undeclared, 0;", 1), abi.InvalidPTX,
			[]string{"%undeclared"},
		},
		"no PTX": {".version 7.0\n.target sm_70\n.this is not PTX", abi.InvalidPTX, nil},
		"version": {
			strings.Replace(kernelsPTX, ".version 7.0", ".version 99.9", 1), abi.UnsupportedPTXVersion,
			[]string{"99.9"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.module(c.text)
			b.want(name, err, c.code)
			var refused *gpu.LoadError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a LoadError", err)
			}
			for _, part := range c.log {
				if !strings.Contains(refused.Log, part) {
					t.Errorf("log %q does not contain %q", refused.Log, part)
				}
			}
		})
	}
	if _, err := b.context.LoadModule(gpu.Image{}, gpu.LoadOptions{}); err == nil {
		t.Error("an empty image was loaded")
	}
	m := b.mustModule(kernelsPTX)
	f := b.function(m, "count")
	b.must(m.Close())
	b.want("launch of an unloaded module", b.newStream().Submit(launch(f, 1, 1)), abi.InvalidHandle)
	b.must(b.context.Fault())
}

func testFunctionAttributes(t *testing.T, b *bench) {
	m := b.mustModule(kernelsPTX)
	info := b.function(m, "scale").Info()
	want := []gpu.Param{
		{Offset: 0, Bytes: 8},
		{Offset: 8, Bytes: 8},
		{Offset: 16, Bytes: 4},
		{Offset: 20, Bytes: 1},
		{Offset: 24, Bytes: 8},
	}
	if info.Name != "scale" || info.ParamBytes != 32 || !slices.Equal(info.Params, want) {
		t.Errorf("parameters of %s: %d bytes, %+v", info.Name, info.ParamBytes, info.Params)
	}
	if a := info.Attributes; a[abi.FuncMaxThreadsPerBlock] < 256 || a[abi.FuncNumRegs] <= 0 ||
		a[abi.FuncConstBytes] < 4 ||
		a[abi.FuncBinaryVersion] < 70 {
		t.Errorf("attributes of scale: %v", a)
	}
	if a := b.function(m, "say").Info().Attributes; a[abi.FuncLocalBytes] < 8 {
		t.Errorf("local memory of say: %d", a[abi.FuncLocalBytes])
	}
	bounded := b.function(m, "bounded")
	if a := bounded.Info().Attributes; a[abi.FuncMaxThreadsPerBlock] != 64 || a[abi.FuncSharedBytes] < 1024 {
		t.Errorf("attributes of bounded: %v", a)
	}
	b.must(bounded.SetAttribute(int32(abi.FuncMaxDynamicSharedBytes), 60<<10))
	b.must(bounded.SetAttribute(int32(abi.FuncPreferredSharedCarveout), 50))
	if a := bounded.Info().Attributes; a[abi.FuncMaxDynamicSharedBytes] != 60<<10 ||
		a[abi.FuncPreferredSharedCarveout] != 50 {
		t.Errorf("attributes after setting: %v", a)
	}
	b.want(
		"too much shared memory",
		bounded.SetAttribute(int32(abi.FuncMaxDynamicSharedBytes), 1<<30),
		abi.InvalidValue,
	)
	b.want("set a read-only attribute", bounded.SetAttribute(int32(abi.FuncNumRegs), 8), abi.InvalidValue)
}

func testOccupancy(t *testing.T, b *bench) {
	f := b.kernel("count")
	threads := int(b.backend.Devices()[0].Attributes[abi.AttrMaxThreadsPerMultiprocessor])
	shared := int(b.backend.Devices()[0].Attributes[abi.AttrMaxSharedMemoryPerMultiprocessor])
	blocks := func(threads, dynamic int) int {
		n, err := f.ActiveBlocks(threads, uint64(dynamic))
		b.must(err)
		return n
	}
	if got := blocks(256, 0); got != threads/256 {
		t.Errorf("%d blocks of 256 threads on a multiprocessor of %d", got, threads)
	}
	if big, bigger := blocks(32, 20<<10), blocks(32, 40<<10); big <= 0 || big > shared/(20<<10) || bigger <= 0 ||
		bigger > shared/(40<<10) {
		t.Errorf("%d blocks with 20 KiB, %d with 40 KiB of %d", big, bigger, shared)
	}
	if got := blocks(1<<20, 0); got != 0 {
		t.Errorf("%d blocks of a million threads", got)
	}
	_, err := f.ActiveBlocks(0, 0)
	b.want("blocks without threads", err, abi.InvalidValue)
}

func testBadLaunches(_ *testing.T, b *bench) {
	s := b.newStream()
	f, out := b.kernel("store"), b.alloc(4)
	with := func(change func(l *gpu.Launch)) gpu.Launch {
		l := launch(f, 1, 1, out, uint32(1))
		change(&l)
		return l
	}
	for name, work := range map[string]gpu.Launch{
		"empty grid":        with(func(l *gpu.Launch) { l.Grid[1] = 0 }),
		"empty block":       with(func(l *gpu.Launch) { l.Block[2] = 0 }),
		"block too large":   with(func(l *gpu.Launch) { l.Block = [3]uint32{1024, 2, 1} }),
		"block too deep":    with(func(l *gpu.Launch) { l.Block = [3]uint32{1, 1, 65} }),
		"grid too high":     with(func(l *gpu.Launch) { l.Grid[1] = 1 << 16 }),
		"shared memory":     with(func(l *gpu.Launch) { l.SharedBytes = 1 << 20 }),
		"parameters":        with(func(l *gpu.Launch) { l.Params = l.Params[:8] }),
		"more than allowed": launch(b.kernel("bounded"), 1, 65),
	} {
		b.want(name, s.Submit(work), abi.InvalidValue)
	}
	b.want("no function", s.Submit(gpu.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}), abi.InvalidHandle)
	large := with(func(l *gpu.Launch) { l.Grid[0], l.Cooperative = 1<<20, true })
	b.want("cooperative grid", s.Submit(large), abi.CooperativeLaunchTooLarge)
	b.must(s.Synchronize())
	b.must(b.context.Fault())
}
