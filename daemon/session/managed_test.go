package session

import (
	"encoding/binary"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// TestManagedVariable: a managed variable of a library lies in the arena, and its memory goes with the library.
func TestManagedVariable(t *testing.T) {
	p := softProgram(t, "soft:1", 1<<20)
	var loaded wire.ModuleLoadReply
	p.ok(abi.CallModuleLoad, p.image(`
.visible .global .attribute(.managed) .align 4 .u32 both = 5;
.visible .global .align 4 .u32 plain = 6;`, true), &loaded)
	library := abi.Handle(loaded.Handle)
	var managed wire.LibraryGetManagedReply
	p.ok(abi.CallLibraryGetManaged, &wire.LibraryGetManaged{Library: library, Name: "both"}, &managed)
	if managed.Bytes != 4 || managed.Dptr < arenaBase {
		t.Fatalf("it lies at %#x, %d bytes", managed.Dptr, managed.Bytes)
	}
	if got := binary.LittleEndian.Uint32(p.arena[managed.Dptr-arenaBase:]); got != 5 {
		t.Errorf("the program reads %d", got)
	}
	p.want(abi.NotFound, abi.CallLibraryGetManaged, &wire.LibraryGetManaged{Library: library, Name: "plain"}, nil)
	p.want(abi.NotFound, abi.CallLibraryGetManaged, &wire.LibraryGetManaged{Library: library, Name: "none"}, nil)
	p.ok(abi.CallLibraryUnload, &wire.LibraryUnload{Library: library}, nil)
	p.ok(abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
	for r := range p.session.arena.Allocations() {
		t.Errorf("%v is still allocated", r)
	}
}
