package simt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

const header = ".version 8.0\n.target sm_90\n.address_size 64\n"

// prologue declares registers. It loads %tid.x into %r1, the address of out into %rd1 and that of
// out[tid] (4 bytes each) into %rd2.
const prologue = `
	.reg .pred %p<10>;
	.reg .b16 %h<10>;
	.reg .b32 %r<30>;
	.reg .b64 %rd<20>;
	.reg .f32 %f<10>;
	.reg .f64 %fd<10>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd2, %rd1, %rd2;
`

// body returns a module with one kernel k(out) of the instructions.
func body(instructions string) string {
	return header + ".visible .entry k(.param .u64 out)\n{" + prologue + instructions + "\n}\n"
}

// run links and runs kernel k with one pointer to bytes of memory. It returns the pointer, the
// printed text and the error.
func (m *machine) run(text string, grid, block uint32, bytes uint64) (out uint64, printed string, err error) {
	m.t.Helper()
	k := m.kernel(m.link(text), "k")
	out = m.alloc(bytes)
	var lines strings.Builder
	err = simt.NewEngine(simt.Options{Cores: 2}).Run(context.Background(), k,
		simt.Launch{Grid: [3]uint32{grid, 1, 1}, Block: [3]uint32{block, 1, 1}, Params: params(out)}, m.memory,
		func(text []byte) { lines.Write(text) })
	return out, lines.String(), err
}

// wantEach runs one block of a kernel and compares out[tid] with want(tid).
func wantEach(t *testing.T, text string, block uint32, want func(tid uint32) uint32) {
	t.Helper()
	m := newMachine(t)
	out, _, err := m.run(text, 1, block, 4*1024)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range m.read32(out, int(block)) {
		if w := want(uint32(i)); got != w {
			t.Fatalf("thread %d: got %#x, want %#x", i, got, w)
		}
	}
}

func TestDivergentLoop(t *testing.T) {
	// Collatz steps: each lane leaves the loop at a different time.
	wantEach(t, body(`
	add.u32 %r2, %r1, 1;
	mov.u32 %r3, 0;
L:	setp.eq.u32 %p1, %r2, 1;
	@%p1 bra DONE;
	and.b32 %r4, %r2, 1;
	setp.eq.u32 %p2, %r4, 0;
	@%p2 bra EVEN;
	mad.lo.u32 %r2, %r2, 3, 1;
	bra NEXT;
EVEN:	shr.u32 %r2, %r2, 1;
NEXT:	add.u32 %r3, %r3, 1;
	bra L;
DONE:	st.global.u32 [%rd2], %r3;
	ret;`), 100, func(tid uint32) uint32 {
		steps := uint32(0)
		for n := tid + 1; n != 1; steps++ {
			if n%2 == 0 {
				n /= 2
			} else {
				n = 3*n + 1
			}
		}
		return steps
	})
}

func TestEarlyExitAndBarrier(t *testing.T) {
	// Odd threads exit before the barrier, which must not wait for them.
	wantEach(t, body(`
	.shared .align 4 .b32 cell[128];
	mov.u32 %r5, cell;
	mad.lo.u32 %r6, %r1, 4, %r5;
	and.b32 %r2, %r1, 1;
	setp.eq.u32 %p1, %r2, 1;
	mov.u32 %r3, 7;
	st.global.u32 [%rd2], %r3;
	@%p1 exit;
	st.shared.u32 [%r6], %r1;
	bar.sync 0;
	xor.b32 %r7, %r1, 126;
	mad.lo.u32 %r6, %r7, 4, %r5;
	ld.shared.u32 %r8, [%r6];
	st.global.u32 [%rd2], %r8;
	ret;`), 128, func(tid uint32) uint32 {
		if tid%2 == 1 {
			return 7
		}
		return tid ^ 126
	})
}

func TestBarrierInDivergentCode(t *testing.T) {
	// The two halves of each warp reach the same barrier at different places.
	wantEach(t, body(`
	.shared .align 4 .b32 cell[64];
	mov.u32 %r5, cell;
	mad.lo.u32 %r6, %r1, 4, %r5;
	st.shared.u32 [%r6], %r1;
	and.b32 %r2, %r1, 1;
	setp.eq.u32 %p1, %r2, 1;
	@%p1 bra ODD;
	bar.sync 0;
	bra MEET;
ODD:	bar.sync 0;
MEET:	sub.u32 %r7, 63, %r1;
	mad.lo.u32 %r6, %r7, 4, %r5;
	ld.shared.u32 %r8, [%r6];
	st.global.u32 [%rd2], %r8;
	ret;`), 64, func(tid uint32) uint32 { return 63 - tid })
}

func TestBarrierReductions(t *testing.T) {
	wantEach(t, body(`
	setp.lt.u32 %p1, %r1, 40;
	bar.red.popc.u32 %r2, 1, %p1;
	bar.red.and.pred %p2, 2, %p1;
	bar.red.or.pred %p3, 2, %p1;
	selp.u32 %r3, 1000, 0, %p2;
	selp.u32 %r4, 100, 0, %p3;
	add.u32 %r2, %r2, %r3;
	add.u32 %r2, %r2, %r4;
	st.global.u32 [%rd2], %r2;
	ret;`), 96, func(uint32) uint32 { return 140 })
}

func TestProducerConsumerBarrier(t *testing.T) {
	// Warp 0 waits for warp 1, which only arrives.
	wantEach(t, body(`
	.shared .align 4 .b32 cell[64];
	mov.u32 %r5, cell;
	shl.b32 %r6, %r1, 2;
	add.u32 %r6, %r6, %r5;
	setp.ge.u32 %p1, %r1, 32;
	@%p1 bra PRODUCE;
	barrier.sync 3, 64;
	ld.shared.u32 %r8, [%r6+128];
	st.global.u32 [%rd2], %r8;
	ret;
PRODUCE:
	mul.lo.u32 %r7, %r1, 3;
	st.shared.u32 [%r6], %r7;
	st.global.u32 [%rd2], 5;
	barrier.arrive 3, 64;
	ret;`), 64, func(tid uint32) uint32 {
		if tid < 32 {
			return (tid + 32) * 3
		}
		return 5
	})
}

func TestStuckBarrier(t *testing.T) {
	m := newMachine(t)
	_, _, err := m.run(body("barrier.sync 1, 64;\nret;"), 1, 32, 4)
	if !errors.Is(err, abi.LaunchFailed) {
		t.Fatalf("got %v, want LAUNCH_FAILED", err)
	}
}

func TestSpinLockWithinWarp(t *testing.T) {
	// All lanes take one lock. Without fairness, the first lane that fails would spin forever while
	// the holder never runs.
	m := newMachine(t)
	out, _, err := m.run(body(`
	add.s64 %rd3, %rd1, 4;
L:	atom.global.cas.b32 %r2, [%rd1], 0, 1;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 bra L;
	ld.volatile.global.u32 %r3, [%rd3];
	add.u32 %r3, %r3, 1;
	st.volatile.global.u32 [%rd3], %r3;
	membar.gl;
	atom.global.exch.b32 %r4, [%rd1], 0;
	ret;`), 4, 64, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.read32(out, 2); got[0] != 0 || got[1] != 256 {
		t.Fatalf("got lock %d and counter %d, want 0 and 256", got[0], got[1])
	}
}

func TestGridBarrier(t *testing.T) {
	// Every block waits until all have arrived: more blocks than cores must be in flight together.
	m := newMachine(t)
	k := m.kernel(m.link(body(`
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra WAIT;
	red.global.add.u32 [%rd1], 1;
WAIT:	mov.u32 %r3, %nctaid.x;
L:	ld.acquire.gpu.global.u32 %r2, [%rd1];
	setp.lt.u32 %p2, %r2, %r3;
	@%p2 bra L;
	ret;`)), "k")
	for _, cooperative := range []bool{true, false} {
		out := m.alloc(256)
		err := simt.NewEngine(simt.Options{Cores: 2}).Run(context.Background(), k, simt.Launch{
			Grid:  [3]uint32{9, 1, 1},
			Block: [3]uint32{64, 1, 1}, Params: params(out), Cooperative: cooperative,
		}, m.memory, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.read32(out, 1)[0]; got != 9 {
			t.Fatalf("got %d blocks at the barrier, want 9", got)
		}
	}
}

func TestCancel(t *testing.T) {
	m := newMachine(t)
	k := m.kernel(m.link(body("L: bra L;")), "k")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	err := simt.NewEngine(simt.Options{}).Run(ctx, k, simt.Launch{
		Grid: [3]uint32{8, 1, 1}, Block: [3]uint32{32, 1, 1},
		Params: params(0),
	}, m.memory, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
}

const recursive = header + `
.visible .func (.param .b32 result) fib(.param .b32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	ld.param.u32 %r1, [n];
	setp.gt.u32 %p1, %r1, 1;
	@%p1 bra MORE;
	st.param.b32 [result], %r1;
	ret;
MORE:
	sub.u32 %r2, %r1, 1;
	{
	.param .b32 a;
	.param .b32 b;
	st.param.b32 [a], %r2;
	call.uni (b), fib, (a);
	ld.param.b32 %r3, [b];
	}
	sub.u32 %r4, %r1, 2;
	{
	.param .b32 a;
	.param .b32 b;
	st.param.b32 [a], %r4;
	call.uni (b), fib, (a);
	ld.param.b32 %r5, [b];
	}
	add.u32 %r6, %r3, %r5;
	st.param.b32 [result], %r6;
	ret;
}
.visible .entry k(.param .u64 out)
{` + prologue + `
	rem.u32 %r2, %r1, 12;
	{
	.param .b32 a;
	.param .b32 b;
	st.param.b32 [a], %r2;
	call.uni (b), fib, (a);
	ld.param.b32 %r3, [b];
	}
	st.global.u32 [%rd2], %r3;
	ret;
}
`

func TestRecursion(t *testing.T) {
	wantEach(t, recursive, 70, func(tid uint32) uint32 {
		a, b := uint32(0), uint32(1)
		for range tid % 12 {
			a, b = b, a+b
		}
		return a
	})
}

func TestIndirectCalls(t *testing.T) {
	wantEach(t, header+`
.func (.param .b32 result) twice(.param .b32 n) 
{ .reg .b32 %r<3>; ld.param.u32 %r1, [n]; shl.b32 %r2, %r1, 1; st.param.b32 [result], %r2; ret; }
.func (.param .b32 result) plus(.param .b32 n) 
{ .reg .b32 %r<3>; ld.param.u32 %r1, [n]; add.u32 %r2, %r1, 1000; st.param.b32 [result], %r2; ret; }
.func (.reg .b32 %result) square(.reg .b32 %n) { mul.lo.u32 %result, %n, %n; ret; }
.global .align 8 .u64 table[2] = { twice, plus };
.visible .entry k(.param .u64 out)
{`+prologue+`
	proto: .callprototype (.param .b32 _) _ (.param .b32 _);
	and.b32 %r2, %r1, 1;
	mul.wide.u32 %rd3, %r2, 8;
	mov.u64 %rd4, table;
	add.s64 %rd4, %rd4, %rd3;
	ld.global.u64 %rd5, [%rd4];
	{
	.param .b32 a;
	.param .b32 b;
	st.param.b32 [a], %r1;
	call (b), %rd5, (a), proto;
	ld.param.b32 %r3, [b];
	}
	call (%r4), square, (%r3);
	st.global.u32 [%rd2], %r4;
	ret;
}`, 40, func(tid uint32) uint32 {
		n := tid * 2
		if tid&1 == 1 {
			n = tid + 1000
		}
		return n * n
	})
}

func TestLocalAndGenericMemory(t *testing.T) {
	// Each lane sorts its own local array through generic pointers, with bytes and vectors among the
	// accesses.
	wantEach(t, body(`
	.local .align 16 .b8 depot[32];
	.shared .align 16 .b8 pool[64];
	mov.u64 %rd3, depot;
	cvta.local.u64 %rd4, %rd3;
	add.u32 %r3, %r1, 1;
	add.u32 %r4, %r1, 2;
	add.u32 %r5, %r1, 3;
	st.v4.u32 [%rd4], {%r1, %r3, %r4, %r5};
	ld.local.v2.u32 {%r6, %r7}, [%rd3+8];
	st.local.u8 [depot+17], %r7;
	ld.s8 %r8, [%rd4+17];
	isspacep.local %p1, %rd4;
	isspacep.shared %p2, %rd4;
	isspacep.global %p3, %rd1;
	selp.u32 %r9, 1, 0, %p1;
	selp.u32 %r10, 2, 0, %p2;
	selp.u32 %r11, 4, 0, %p3;
	mad.lo.u32 %r12, %r6, 1000, %r8;
	mad.lo.u32 %r12, %r9, 100000, %r12;
	mad.lo.u32 %r12, %r10, 100000, %r12;
	mad.lo.u32 %r12, %r11, 100000, %r12;
	st.global.u32 [%rd2], %r12;
	ret;`), 33, func(tid uint32) uint32 { return (tid+2)*1000 + tid + 3 + 500000 })
}

func TestPrintf(t *testing.T) {
	m := newMachine(t)
	text := header + `
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 fmt[28] = {116, 61, 37, 51, 100, 32, 120, 61, 37, 46,
	50, 102, 32, 108, 61, 37, 108, 108, 120, 32, 115, 61, 37, 115, 37, 99, 10, 0};
.global .align 1 .b8 word[3] = {111, 107, 0};
.visible .entry k(.param .u64 out)
{` + prologue + `
	.local .align 8 .b8 depot[40];
	mov.u64 %rd3, depot;
	cvta.local.u64 %rd4, %rd3;
	st.local.u32 [depot], %r1;
	mov.f64 %fd1, 0d3FF8000000000000;
	st.local.f64 [depot+8], %fd1;
	mov.u64 %rd5, 0x123456789A;
	st.local.u64 [depot+16], %rd5;
	mov.u64 %rd6, word;
	cvta.global.u64 %rd6, %rd6;
	st.local.u64 [depot+24], %rd6;
	mov.u32 %r2, 33;
	st.local.u32 [depot+32], %r2;
	mov.u64 %rd7, fmt;
	cvta.global.u64 %rd7, %rd7;
	{
	.param .b64 p0;
	.param .b64 p1;
	.param .b32 r;
	st.param.b64 [p0], %rd7;
	st.param.b64 [p1], %rd4;
	call.uni (r), vprintf, (p0, p1);
	ld.param.b32 %r3, [r];
	}
	st.global.u32 [%rd2], %r3;
	ret;
}`
	_, printed, err := m.run(text, 1, 2, 64)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("t=%3d x=1.50 l=123456789a s=ok!\nt=%3d x=1.50 l=123456789a s=ok!\n", 0, 1)
	if printed != want {
		t.Fatalf("printed %q, want %q", printed, want)
	}
}

func TestMalloc(t *testing.T) {
	m := newMachine(t)
	text := header + `
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
.visible .entry k(.param .u64 out)
{` + prologue + `
	mov.u64 %rd5, 40;
	mov.u32 %r5, 0;
L:	{
	.param .b64 n;
	.param .b64 r;
	st.param.b64 [n], %rd5;
	call.uni (r), malloc, (n);
	ld.param.b64 %rd6, [r];
	}
	st.u32 [%rd6+36], %r1;
	bar.sync 0;
	ld.u32 %r6, [%rd6+36];
	st.global.u32 [%rd2], %r6;
	{
	.param .b64 p;
	st.param.b64 [p], %rd6;
	call.uni free, (p);
	}
	add.u32 %r5, %r5, 1;
	setp.lt.u32 %p1, %r5, 50;
	@%p1 bra L;
	ret;
}`
	out, _, err := m.run(text, 1, 96, 400)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range m.read32(out, 96) {
		if got != uint32(i) {
			t.Fatalf("thread %d read %d: its memory was given away twice", i, got)
		}
	}
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		kind    abi.Result
		address uint64
	}{
		"null": {"mov.u64 %rd9, 0;\nst.global.u32 [%rd9], 1;", abi.IllegalAddress, 0},
		"behind window": {
			"mov.u64 %rd9, 0x3fffffffff00;\nld.global.u32 %r9, [%rd9+4];\nst.global.u32 [%rd2], %r9;",
			abi.IllegalAddress, 0x3fffffffff04,
		},
		"misaligned": {"ld.global.u32 %r9, [%rd1+2];\nst.global.u32 [%rd2], %r9;", abi.MisalignedAddress, windowBase + 2},
		"vector": {
			"ld.global.v2.u32 {%r9, %r8}, [%rd1+4];\nst.global.u32 [%rd2], %r9;",
			abi.MisalignedAddress, windowBase + 4,
		},
		"shared": {".shared .b32 x[4];\nst.shared.u32 [x+16], %r1;", abi.IllegalAddress, 0x10_0000_0010},
		"local":  {".local .b32 x[4];\nst.local.u32 [x+16], %r1;", abi.IllegalAddress, 0x11_0000_0010},
		"trap":   {"trap;", abi.IllegalInstruction, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			_, _, err := m.run(body("setp.ne.u32 %p1, %r1, 33;\n@%p1 exit;\n"+test.text+"\nret;"), 1, 64, 256)
			var fault *simt.Fault
			if !errors.As(err, &fault) || !errors.Is(err, test.kind) {
				t.Fatalf("got %v, want %v", err, test.kind)
			}
			if fault.Kernel != "k" || fault.Thread != [3]uint32{33, 0, 0} || fault.Pos.Line == 0 ||
				fault.Instruction == "" {
				t.Errorf("incomplete: %+v", fault)
			}
			if fault.Address != test.address {
				t.Errorf("address %#x, want %#x", fault.Address, test.address)
			}
		})
	}
}

func TestRefusedAtLink(t *testing.T) {
	m := newMachine(t)
	module, err := ptx.Parse(header + ".extern .func missing;\n.visible .entry k() { call missing; ret; }")
	if err != nil {
		t.Skip("the parser refuses it already:", err)
	}
	_, err = simt.Link([]*ptx.Module{module}, m.place, m.memory)
	if !errors.Is(err, abi.InvalidPTX) || !strings.Contains(err.Error(), "missing") {
		t.Fatalf("got %v", err)
	}
}

// TestSpinOnPlainLoads has a chain of blocks each of which waits, by loads that are not volatile,
// for the one after it: every one must be given up by its only core until the last has begun.
func TestSpinOnPlainLoads(t *testing.T) {
	m := newMachine(t)
	const blocks = 12
	k := m.kernel(m.link(body(`
	mov.u32 %r2, %ctaid.x;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd3, %rd1, %rd3;
	mov.u32 %r4, %nctaid.x;
	sub.u32 %r4, %r4, 1;
	setp.eq.u32 %p1, %r2, %r4;
	@%p1 bra LAST;
WAIT:	ld.global.u32 %r3, [%rd3+4];
	setp.eq.u32 %p2, %r3, 0;
	@%p2 bra WAIT;
LAST:	add.u32 %r3, %r3, 1;
	st.global.u32 [%rd3], %r3;
	ret;`)), "k")
	out := m.alloc(256)
	began := time.Now()
	err := simt.NewEngine(simt.Options{Cores: 1}).Run(context.Background(), k, simt.Launch{
		Grid:  [3]uint32{blocks, 1, 1},
		Block: [3]uint32{1, 1, 1}, Params: params(out),
	}, m.memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d blocks took %v", blocks, time.Since(began))
	if got := m.read32(out, 1)[0]; got != blocks {
		t.Errorf("the first block counts %d, want %d", got, blocks)
	}
}
