package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// variablesText has variables without an initial value in all state spaces of device memory, of
// sizes that share a chunk and one that does not, and one with an initial value.
const variablesText = `
.visible .global .align 4 .u32 word;
.visible .global .align 64 .b8 aligned[96];
.visible .global .align 1024 .b8 wide[1024];
.visible .global .align 8 .b8 part[100000];
.visible .global .align 8 .b8 large[1500000];
.visible .const .align 4 .b8 constant[4000];
.visible .global .attribute(.managed) .align 4 .b8 both[5000];
.visible .global .align 4 .u32 set = 1234;
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r; .reg .b64 %a;
	ld.param.u64 %a, [p];
	ld.global.u32 %r, [word];
	st.global.u32 [%a], %r;
	ret;
}`

// dirtyMemory makes the program's free memory hold old data: it fills allocations of many sizes in
// device memory and in the arena, and frees them.
func (p *program) dirtyMemory() {
	p.t.Helper()
	var device, pinned []uint64
	for _, bytes := range []uint64{4, 512, 4096, 100_000, 1 << 20, 1_500_000} {
		for range 3 {
			at := p.alloc(bytes)
			p.ok(abi.CallMemset, &wire.Memset{Address: at, Pattern: 0xa5, PatternBytes: 1, Columns: bytes, Rows: 1}, nil)
			device = append(device, at)
		}
	}
	for range 3 {
		var out wire.MemHostAllocReply
		p.ok(abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: 8192}, &out)
		for i := range uint64(8192) {
			p.arena[out.Pp-arenaBase+i] = 0xa5
		}
		pinned = append(pinned, out.Pp)
	}
	for _, at := range device {
		p.ok(abi.CallMemFree, &wire.MemFree{Dptr: at}, nil)
	}
	for _, at := range pinned {
		p.ok(abi.CallMemFreeHost, &wire.MemFreeHost{P: at}, nil)
	}
	p.ok(abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
}

// content returns what device memory holds.
func (p *program) content(at, bytes uint64) []byte {
	p.t.Helper()
	content := make([]byte, bytes)
	if _, err := p.session.core.Devices[0].GPU.Memory().ReadAt(content, int64(at)); err != nil {
		p.t.Fatal(err)
	}
	return content
}

// wantInitial checks that all variables of a module have their initial value: zero where none is
// given.
func (p *program) wantInitial(module abi.Handle) {
	p.t.Helper()
	for _, name := range []string{"word", "aligned", "wide", "part", "large", "constant", "both", "set"} {
		var at wire.ModuleGetGlobalReply
		p.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: module, Name: name}, &at)
		got, want := p.content(at.Dptr, at.Bytes), make([]byte, at.Bytes)
		if name == "set" {
			binary.LittleEndian.PutUint32(want, 1234)
		}
		if !bytes.Equal(got, want) {
			p.t.Errorf("variable %s of %d bytes: got % x..., want % x...", name, at.Bytes, got[:4], want[:4])
		}
	}
}

// TestVariablesBegin checks the initial state of module variables (CUDA C++ Programming Guide: a
// __device__ or __constant__ variable without an initializer is zero, as in C++), in memory that
// was used before: of modules, of libraries that are loaded at their first use, of linked texts,
// and of code that is loaded again after the variables were written.
func TestVariablesBegin(t *testing.T) {
	p := softProgram(t, "soft:1", 4<<20)
	scribble := func(module abi.Handle) {
		for _, name := range []string{"word", "part", "large", "constant", "both", "set"} {
			var at wire.ModuleGetGlobalReply
			p.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: module, Name: name}, &at)
			p.ok(abi.CallMemset, &wire.Memset{Address: at.Dptr, Pattern: 0x5a, PatternBytes: 1, Columns: at.Bytes, Rows: 1}, nil)
		}
		p.ok(abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
	}
	for round := range 5 {
		t.Run(fmt.Sprintf("module/%d", round), func(t *testing.T) {
			p.dirtyMemory()
			module := p.load(variablesText)
			p.wantInitial(module)
			scribble(module)
			other := p.load(variablesText) // has variables of its own
			p.wantInitial(other)
			p.ok(abi.CallModuleUnload, &wire.ModuleUnload{Hmod: module}, nil)
			p.ok(abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
			again := p.load(variablesText)
			p.wantInitial(again)
			p.wantInitial(other)
			p.ok(abi.CallModuleUnload, &wire.ModuleUnload{Hmod: again}, nil)
			p.ok(abi.CallModuleUnload, &wire.ModuleUnload{Hmod: other}, nil)
			p.ok(abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
		})
	}
	t.Run("library", func(t *testing.T) {
		p.dirtyMemory()
		in := p.image(variablesText, true)
		context := p.context
		p.context = 0 // no context: the library is loaded at its first use
		var loaded wire.ModuleLoadReply
		p.ok(abi.CallModuleLoad, in, &loaded)
		p.context = context
		var module wire.LibraryGetModuleReply
		p.ok(abi.CallLibraryGetModule, &wire.LibraryGetModule{Library: abi.Handle(loaded.Handle)}, &module)
		p.wantInitial(module.PMod)
	})
	t.Run("restored", func(t *testing.T) {
		module := p.load(variablesText)
		scribble(module)
		twin := p.twin("soft:1", false)
		for _, name := range []string{"word", "part", "large", "constant", "both", "set"} {
			var at wire.ModuleGetGlobalReply
			twin.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: module, Name: name}, &at)
			if got := twin.content(at.Dptr, at.Bytes); !bytes.Equal(got, bytes.Repeat([]byte{0x5a}, int(at.Bytes))) {
				t.Errorf("variable %s has lost its value: % x...", name, got[:4])
			}
		}
	})
}
