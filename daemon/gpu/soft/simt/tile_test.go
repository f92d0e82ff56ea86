package simt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
)

// start runs one block of kernel k(out).
func (m *machine) start(text string, out uint64, block uint32) {
	m.t.Helper()
	err := simt.NewEngine(simt.Options{Cores: 1}).Run(context.Background(), m.kernel(m.link(text), "k"),
		simt.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{block, 1, 1}, Params: params(out)}, m.memory, nil)
	if err != nil {
		m.t.Fatal(err)
	}
}

// tiles is the start of the kernels below. It fills 512 bytes of shared memory with four tiles of 8
// by 8 halves, each half holding its index, and sets %r3 to the address of row %tid.x.
const tiles = `
	.shared .align 16 .b8 tile[512];
	mov.u32 %r2, tile;
	mad.lo.u32 %r3, %r1, 16, %r2;
	mul.lo.u32 %r4, %r1, 8;
	mad.lo.u32 %r4, %r4, 0x10001, 0x10000;
	add.u32 %r5, %r4, 0x20002;
	add.u32 %r6, %r4, 0x40004;
	add.u32 %r7, %r4, 0x60006;
	st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};
	bar.sync 0;
`

func TestLoadMatrix(t *testing.T) {
	for _, test := range []struct {
		count      int
		registers  string
		transposed bool
	}{
		{1, "{%r10}", false},
		{2, "{%r10, %r11}", true},
		{4, "{%r10, %r11, %r12, %r13}", false},
		{4, "{%r10, %r11, %r12, %r13}", true},
	} {
		trans := ""
		if test.transposed {
			trans = ".trans"
		}
		opcode := fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16", test.count, trans)
		t.Run(opcode, func(t *testing.T) {
			m := newMachine(t)
			out := m.alloc(512)
			m.start(body(tiles+opcode+" "+test.registers+`, [%r3];
	mul.wide.u32 %rd2, %r1, 16;
	add.s64 %rd2, %rd1, %rd2;
	st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};
	ret;`), out, 32)
			for i, got := range m.read32(out, 128) {
				lane, n := i/4, i%4
				if n >= test.count {
					continue
				}
				at := func(row, column int) uint32 {
					if test.transposed {
						row, column = column, row
					}
					return uint32(n*64 + row*8 + column)
				}
				if want := at(lane/4, lane%4*2) | at(lane/4, lane%4*2+1)<<16; got != want {
					t.Fatalf("lane %d, matrix %d: got %#x, want %#x", lane, n, got, want)
				}
			}
		})
	}
}

func TestStoreAndMoveMatrix(t *testing.T) {
	// Loading, transposing and storing transposed must give the original.
	m := newMachine(t)
	out := m.alloc(512)
	m.start(body(tiles+`
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
	movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r10;
	movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r11;
	mov.u32 %r14, 0;
	st.shared.v4.u32 [%r3], {%r14, %r14, %r14, %r14};
	bar.sync 0;
	cvt.u64.u32 %rd3, %r3;
	cvta.shared.u64 %rd3, %rd3;
	stmatrix.sync.aligned.m8n8.x2.trans.b16 [%rd3], {%r10, %r11};
	add.u32 %r15, %r3, 256;
	stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r15], {%r12, %r13};
	bar.sync 0;
	ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];
	mul.wide.u32 %rd2, %r1, 16;
	add.s64 %rd2, %rd1, %rd2;
	st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
	ret;`), out, 32)
	for i, got := range m.read32(out, 128) {
		if want := uint32(2*i | (2*i+1)<<16); got != want {
			t.Fatalf("word %d: got %#x, want %#x", i, got, want)
		}
	}
}

func TestMatrixFaults(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want abi.Result
	}{
		"misaligned row": {
			"add.u32 %r3, %r3, 8;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];",
			abi.MisalignedAddress,
		},
		"row beyond": {
			"add.u32 %r3, %r3, 64;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];",
			abi.IllegalAddress,
		},
		"copy misaligned":   {"add.s64 %rd1, %rd1, 4;\ncp.async.ca.shared.global [%r3], [%rd1], 16;", abi.MisalignedAddress},
		"copy from nowhere": {"mov.u64 %rd1, 4096;\ncp.async.ca.shared.global [%r3], [%rd1], 4;", abi.IllegalAddress},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			_, _, err := m.run(body(tiles+test.text+"\nret;"), 1, 32, 512)
			var fault *simt.Fault
			if !errors.As(err, &fault) || fault.Kind != test.want {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}

func TestMatrixWaitsForAllLanes(t *testing.T) {
	// Odd lanes arrive later, by a jump backwards.
	wantEach(t, body(`
	and.b32 %r2, %r1, 1;
	setp.eq.u32 %p1, %r2, 0;
	shr.u32 %r3, %r1, 2;
	mov.u32 %r5, 0;
	@%p1 bra MEET;
	mov.u32 %r4, 1;
MEET:	cvt.rn.f32.u32 %f1, %r3;
	mov.f32 %f2, 0f00000000;
	mov.b32 %r6, 0x3C003C00;
	mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f3, %f4, %f5, %f6}, {%r6, %r5}, {%r6}, {%f1, %f1, %f2, %f2};
	cvt.rzi.u32.f32 %r7, %f3;
	cvt.rzi.u32.f32 %r8, %f5;
	mad.lo.u32 %r7, %r8, 1000, %r7;
	st.global.u32 [%rd2], %r7;
	ret;`), 32, func(lane uint32) uint32 { return 8 + lane/4 })
}

func TestCopyAsync(t *testing.T) {
	for _, test := range []struct {
		text string
		each int // bytes copied per thread
		read func(tid int) int
	}{
		{"cp.async.ca.shared.global [%r4], [%rd4], 4;", 4, func(int) int { return 4 }},
		{"cp.async.ca.shared.global.L2::64B [%r4], [%rd4], 8, 5;", 8, func(int) int { return 5 }},
		{"cp.async.cg.shared.global [%r4], [%rd4], 16;", 16, func(int) int { return 16 }},
		{"cp.async.ca.shared.global [%r4], [%rd4], 16, %r1;", 16, func(tid int) int { return min(tid, 16) }},
		{"setp.gt.u32 %p1, %r1, 9;\ncp.async.ca.shared.global [%r4], [%rd4], 8, %p1;", 8, func(tid int) int {
			if tid > 9 {
				return 0
			}
			return 8
		}},
	} {
		t.Run(test.text, func(t *testing.T) {
			m := newMachine(t)
			out := m.alloc(1024)
			source := make([]byte, 512)
			for i := range source {
				source[i] = byte(i*7 + 1)
			}
			if _, err := m.memory.WriteAt(source, int64(out)+512); err != nil {
				t.Fatal(err)
			}
			m.start(body(fmt.Sprintf(`
	.shared .align 16 .b8 tile[512];
	mov.u32 %%r2, tile;
	mad.lo.u32 %%r4, %%r1, %d, %%r2;
	mad.lo.u32 %%r3, %%r1, 16, %%r2;
	mov.u32 %%r5, -1;
	st.shared.v4.u32 [%%r3], {%%r5, %%r5, %%r5, %%r5};
	bar.sync 0;
	mul.wide.u32 %%rd4, %%r1, %d;
	add.s64 %%rd4, %%rd4, %%rd1;
	add.s64 %%rd4, %%rd4, 512;
	%s
	cp.async.commit_group;
	cp.async.wait_group 0;
	bar.sync 0;
	ld.shared.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%r3];
	mul.wide.u32 %%rd2, %%r1, 16;
	add.s64 %%rd2, %%rd1, %%rd2;
	st.global.v4.u32 [%%rd2], {%%r4, %%r5, %%r6, %%r7};
	ret;`, test.each, test.each, test.text)), out, 32)
			got := make([]byte, 512)
			if _, err := m.memory.ReadAt(got, int64(out)); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				want := byte(0xff)
				if tid := i / test.each; tid < 32 {
					want = 0
					if i%test.each < test.read(tid) {
						want = source[i]
					}
				}
				if got[i] != want {
					t.Fatalf("byte %d: got %#x, want %#x", i, got[i], want)
				}
			}
		})
	}
}
