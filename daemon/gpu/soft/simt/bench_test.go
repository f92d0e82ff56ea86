package simt_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/internal/ptx"
)

const windowBase = 0x3000_0000_0000

// machine is device memory with a bump allocator, for tests.
type machine struct {
	t      testing.TB
	memory *simt.Memory
	next   uint64
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	window := gpu.Range{Address: windowBase, Bytes: 64 << 20}
	memory, err := space.New(window)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Close() })
	if err := memory.Map(window); err != nil {
		t.Fatal(err)
	}
	return &machine{t, memory, windowBase}
}

func (m *machine) place(_ string, bytes, align uint64) (uint64, error) {
	at := (m.next + align - 1) / align * align
	m.next = at + bytes
	return at, nil
}

func (m *machine) alloc(bytes uint64) uint64 {
	at, _ := m.place("", bytes, 256)
	return at
}

func (m *machine) link(text string) *simt.Program {
	m.t.Helper()
	module, err := ptx.Parse(text)
	if err != nil {
		m.t.Fatal(err)
	}
	program, err := simt.Link([]*ptx.Module{module}, m.place, m.memory)
	if err != nil {
		m.t.Fatal(err)
	}
	return program
}

func (m *machine) write32(address uint64, values ...uint32) {
	m.t.Helper()
	raw := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(raw[4*i:], v)
	}
	if _, err := m.memory.WriteAt(raw, int64(address)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read32(address uint64, count int) []uint32 {
	m.t.Helper()
	raw := make([]byte, 4*count)
	if _, err := m.memory.ReadAt(raw, int64(address)); err != nil {
		m.t.Fatal(err)
	}
	values := make([]uint32, count)
	for i := range values {
		values[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return values
}

func (m *machine) read64(address uint64, count int) []uint64 {
	low := m.read32(address, 2*count)
	values := make([]uint64, count)
	for i := range values {
		values[i] = uint64(low[2*i]) | uint64(low[2*i+1])<<32
	}
	return values
}

// params packs 64-bit parameters.
func params(values ...uint64) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, v)
	}
	return raw
}

func (m *machine) kernel(program *simt.Program, name string) *simt.Kernel {
	m.t.Helper()
	k, err := program.Kernel(name)
	if err != nil {
		m.t.Fatalf("%v in %v", err, program.Kernels())
	}
	return k
}

// matmulText is a naive matrix product with the inner loop as nvcc unrolls it: 21 instructions for
// 4 multiply-adds.
const matmulText = `
.version 8.0
.target sm_90
.address_size 64
.visible .entry matmul(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn)
{
	.reg .pred %p<4>;
	.reg .f32 %f<16>;
	.reg .b32 %r<16>;
	.reg .b64 %rd<24>;
	ld.param.u64 %rd1, [pa];
	ld.param.u64 %rd2, [pb];
	ld.param.u64 %rd3, [pc];
	ld.param.u32 %r1, [pn];
	mov.u32 %r2, %ctaid.y;
	mov.u32 %r3, %ntid.y;
	mov.u32 %r4, %tid.y;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	mov.u32 %r6, %ctaid.x;
	mov.u32 %r7, %ntid.x;
	mov.u32 %r8, %tid.x;
	mad.lo.s32 %r9, %r6, %r7, %r8;
	cvta.to.global.u64 %rd4, %rd1;
	cvta.to.global.u64 %rd5, %rd2;
	mul.lo.s32 %r10, %r5, %r1;
	mul.wide.s32 %rd6, %r10, 4;
	add.s64 %rd7, %rd4, %rd6;
	mul.wide.s32 %rd8, %r9, 4;
	add.s64 %rd9, %rd5, %rd8;
	mul.wide.s32 %rd10, %r1, 4;
	mov.f32 %f1, 0f00000000;
	mov.u32 %r11, 0;
$L_loop:
	ld.global.f32 %f2, [%rd9];
	ld.global.f32 %f3, [%rd7];
	fma.rn.f32 %f1, %f3, %f2, %f1;
	add.s64 %rd11, %rd9, %rd10;
	ld.global.f32 %f4, [%rd11];
	ld.global.f32 %f5, [%rd7+4];
	fma.rn.f32 %f1, %f5, %f4, %f1;
	add.s64 %rd12, %rd11, %rd10;
	ld.global.f32 %f6, [%rd12];
	ld.global.f32 %f7, [%rd7+8];
	fma.rn.f32 %f1, %f7, %f6, %f1;
	add.s64 %rd13, %rd12, %rd10;
	ld.global.f32 %f8, [%rd13];
	ld.global.f32 %f9, [%rd7+12];
	fma.rn.f32 %f1, %f9, %f8, %f1;
	add.s64 %rd9, %rd13, %rd10;
	add.s64 %rd7, %rd7, 16;
	add.s32 %r11, %r11, 4;
	setp.lt.s32 %p1, %r11, %r1;
	@%p1 bra $L_loop;
	mad.lo.s32 %r12, %r5, %r1, %r9;
	cvta.to.global.u64 %rd14, %rd3;
	mul.wide.s32 %rd15, %r12, 4;
	add.s64 %rd16, %rd14, %rd15;
	st.global.f32 [%rd16], %f1;
	ret;
}
`

// matmulInstructions returns how many instructions a thread executes for size n.
func matmulInstructions(n int) int { return 22 + n/4*20 + 6 }

type matmul struct {
	*machine
	kernel  *simt.Kernel
	n       int
	a, b    []float32
	c       uint64
	launch  simt.Launch
	threads int
}

func newMatmul(t testing.TB, n int) *matmul {
	m := newMachine(t)
	program := m.link(matmulText)
	x := &matmul{machine: m, kernel: m.kernel(program, "matmul"), n: n, threads: n * n}
	random := rand.New(rand.NewPCG(1, 2))
	fill := func() (uint64, []float32) {
		values, words := make([]float32, n*n), make([]uint32, n*n)
		for i := range values {
			values[i] = random.Float32() - 0.5
			words[i] = math.Float32bits(values[i])
		}
		at := m.alloc(uint64(4 * n * n))
		m.write32(at, words...)
		return at, values
	}
	var pa, pb uint64
	pa, x.a = fill()
	pb, x.b = fill()
	x.c = m.alloc(uint64(4 * n * n))
	x.launch = simt.Launch{
		Grid: [3]uint32{uint32(n / 16), uint32(n / 16), 1}, Block: [3]uint32{16, 16, 1},
		Params: params(pa, pb, x.c, uint64(n)),
	}
	return x
}

func TestMatmul(t *testing.T) {
	x := newMatmul(t, 64)
	if err := simt.NewEngine(simt.Options{}).Run(context.Background(), x.kernel, x.launch, x.memory, nil); err != nil {
		t.Fatal(err)
	}
	for i, word := range x.read32(x.c, x.n*x.n) {
		var sum float32
		for k := range x.n {
			// The product of two float32 is exact in float64. A short sum of them is exact, too, up to the
			// last rounding, which FMA does once.
			sum = float32(math.FMA(float64(x.a[i/x.n*x.n+k]), float64(x.b[k*x.n+i%x.n]), float64(sum)))
		}
		if got := math.Float32frombits(word); math.Abs(float64(got-sum)) > 1e-5 {
			t.Fatalf("element %d: got %v, want %v", i, got, sum)
		}
	}
}

func benchmarkMatmul(b *testing.B, cores int) {
	const n = 256
	x := newMatmul(b, n)
	engine := simt.NewEngine(simt.Options{Cores: cores})
	b.ResetTimer()
	before := processorTime(b)
	for range b.N {
		if err := engine.Run(context.Background(), x.kernel, x.launch, x.memory, nil); err != nil {
			b.Fatal(err)
		}
	}
	used := processorTime(b) - before
	instructions := float64(x.threads) * float64(matmulInstructions(n)) * float64(b.N)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/instructions, "ns/thread-inst")
	// On a busy machine, this is the more reliable figure.
	b.ReportMetric(float64(used.Nanoseconds())/instructions, "cpu-ns/thread-inst")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the CPU time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkMatmulOneCore(b *testing.B) { benchmarkMatmul(b, 1) }

func BenchmarkMatmulAllCores(b *testing.B) { benchmarkMatmul(b, runtime.GOMAXPROCS(0)) }
