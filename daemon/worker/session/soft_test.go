package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// softProgram starts a program on the software GPU.
func softProgram(t testing.TB, spec string, bytes int) *program {
	t.Helper()
	backend, err := soft.Open(spec, soft.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	return startProgram(t, backend, bytes)
}

const doubleText = `
.global .align 4 .u32 calls;
.visible .entry double(.param .u64 data, .param .u32 count)
{
	.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;
	ld.param.u64 %rd0, [data];
	ld.param.u32 %r0, [count];
	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	setp.ge.u32 %p, %r4, %r0;
	@%p bra DONE;
	mul.wide.u32 %rd1, %r4, 4;
	add.s64 %rd2, %rd0, %rd1;
	ld.global.u32 %r5, [%rd2];
	add.s32 %r5, %r5, %r5;
	st.global.u32 [%rd2], %r5;
	atom.global.add.u32 %r6, [calls], 1;
DONE:
	ret;
}`

func doubleOf(f, stream abi.Handle, data uint64, count uint32) *wire.Launch {
	params := binary.LittleEndian.AppendUint64(nil, data)
	return &wire.Launch{
		Function: uint64(
			f,
		), GridX: (count + 127) / 128, GridY: 1, GridZ: 1, BlockX: 128, BlockY: 1, BlockZ: 1, Stream: stream,
		Params: binary.LittleEndian.AppendUint32(params, count),
	}
}

// TestRealKernel takes a kernel through loading, launching, capturing and copying on the software
// GPU.
func TestRealKernel(t *testing.T) {
	for _, spec := range []string{"soft:1", "soft:2,deterministic"} {
		t.Run(spec, func(t *testing.T) {
			const count = 1000
			p := softProgram(t, spec, 1<<20)
			module := p.load(doubleText)
			var f wire.ModuleGetFunctionReply
			p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: module, Name: "double"}, &f)
			device := p.alloc(4 * count)
			for i := range count {
				binary.LittleEndian.PutUint32(p.memory[4*i:], uint32(i))
			}
			if err := p.copyIn(device, 0, 4*count); err != nil {
				t.Fatal(err)
			}
			st := p.stream(0)
			p.ok(abi.CallLaunch, doubleOf(f.Hfunc, st, device, count), nil)
			p.begin(st)
			p.ok(abi.CallLaunch, doubleOf(f.Hfunc, st, device, count), nil)
			p.ok(abi.CallLaunch, doubleOf(f.Hfunc, st, device, count), nil)
			exec := p.instantiate(p.end(st))
			p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: st}, nil)
			// The default stream waits for the blocking one.
			if err := p.copyOut(0, device, 4*count); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				if got := binary.LittleEndian.Uint32(p.memory[4*i:]); got != uint32(8*i) {
					t.Fatalf("element %d is %d, want %d", i, got, 8*i)
				}
			}
			var calls wire.ModuleGetGlobalReply
			p.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: module, Name: "calls"}, &calls)
			if err := p.copyOut(0, calls.Dptr, 4); err != nil {
				t.Fatal(err)
			}
			if got := binary.LittleEndian.Uint32(p.memory); got != 3*count {
				t.Errorf("the counter is %d, want %d", got, 3*count)
			}
		})
	}
}

// TestRealFault writes where nothing is: the context is poisoned until it is made again.
func TestRealFault(t *testing.T) {
	p := softProgram(t, "soft:1", 1<<20)
	module := p.load(doubleText)
	var f wire.ModuleGetFunctionReply
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: module, Name: "double"}, &f)
	p.do(abi.CallLaunch, doubleOf(f.Hfunc, 0, 0x1000, 10), nil)
	p.want(abi.IllegalAddress, abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
	p.want(abi.IllegalAddress, abi.CallStreamQuery, &wire.StreamQuery{}, nil)
	if fault := p.session.Progress().Fault; !strings.Contains(fault, "kernel ") ||
		!strings.Contains(fault, "address 0x") {
		t.Errorf("progress tells of the fault: %q", fault)
	}
	p.ok(abi.CallDevicePrimaryCtxReset, &wire.DevicePrimaryCtxReset{}, nil)
	p.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, nil)
	device := p.alloc(1000)
	if err := p.copyIn(device, 0, 1000); err != nil {
		t.Error(err)
	}
}

// TestRealRefusals: what cannot run here says why in the JIT log.
func TestRealRefusals(t *testing.T) {
	p := softProgram(t, "soft:1", 1<<20)
	for _, c := range []struct {
		name, text, log string
		want            abi.Result
	}{
		{"unknown instruction", ".visible .entry k()\n{\n\tfrobnicate.b32 %r1, %r2;\n}", "frobnicate", abi.InvalidPTX},
		{"no such variable", ".visible .entry k()\n{\n\tst.global.u32 [nowhere], 1;\n}", "nowhere", abi.InvalidPTX},
	} {
		var out wire.ModuleLoadReply
		p.want(c.want, abi.CallModuleLoad, p.image(c.text, false), &out)
		if !strings.Contains(string(out.Log), c.log) || !strings.Contains(string(out.Log), "line") {
			t.Errorf("%s: log %q", c.name, out.Log)
		}
	}
	cubin := make([]byte, 1024)
	copy(cubin, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(cubin[18:], 190) // EM_CUDA
	binary.LittleEndian.PutUint32(cubin[48:], 90)
	binary.LittleEndian.PutUint16(cubin[52:], 64)
	copy(p.memory, cubin)
	var out wire.ModuleLoadReply
	if err := p.do(abi.CallModuleLoad, &wire.ModuleLoad{Address: programBase, Size: uint64(len(cubin))}, &out); !errors.Is(
		err,
		abi.NoBinaryForGPU,
	) {
		t.Errorf("machine code: %v", err)
	}
	if !strings.Contains(string(out.Log), "real GPU") {
		t.Errorf("machine code: log %q", out.Log)
	}
}

func BenchmarkCopy(b *testing.B) {
	for _, bytes := range []int{4, 64 << 10, 16 << 20, 64 << 20} {
		p := softProgram(b, "soft:1", bytes+1<<20)
		device := p.alloc(uint64(bytes))
		other := make([]byte, bytes)
		b.Run(fmt.Sprintf("in/%d", bytes), func(b *testing.B) {
			b.SetBytes(int64(bytes))
			for b.Loop() {
				_ = p.copyIn(device, 0, bytes)
			}
		})
		b.Run(fmt.Sprintf("out/%d", bytes), func(b *testing.B) {
			b.SetBytes(int64(bytes))
			for b.Loop() {
				_ = p.copyOut(0, device, bytes)
			}
		})
		b.Run(fmt.Sprintf("memcpy/%d", bytes), func(b *testing.B) {
			b.SetBytes(int64(bytes))
			for b.Loop() {
				copy(other, p.memory)
			}
		})
	}
}

func BenchmarkSynchronize(b *testing.B) {
	p := softProgram(b, "soft:1", 2<<20)
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			syncContext(p)
		}
	})
	module := p.load(doubleText)
	var f wire.ModuleGetFunctionReply
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: module, Name: "double"}, &f)
	device := p.alloc(4)
	b.Run("after a launch", func(b *testing.B) {
		for b.Loop() {
			p.ok(abi.CallLaunch, doubleOf(f.Hfunc, 0, device, 1), nil)
			syncContext(p)
		}
	})
}
