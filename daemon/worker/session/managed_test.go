package session

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// TestManagedVariable: a managed variable of a library lies in the arena, and its memory goes with
// the library.
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
	for _, r := range p.session.ArenaRanges() {
		t.Errorf("%v is still allocated", r)
	}
}

// TestManagedWhileDeviceOpens opens the second GPU while a module with a managed variable is being
// loaded on the first: the variable is mapped in both, and once.
func TestManagedWhileDeviceOpens(t *testing.T) {
	p := newProgram(t)
	memoryOf := func(device int) *fakeMemory {
		c := *p.session.core.Devices[device].Opened.Load()
		return c.Memory().(*fakeMemory)
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	memoryOf(0).mapping = func(uint64) {
		close(reached)
		<-goOn
	}
	loading := p.post(0, 0, abi.CallModuleLoad, p.image(".managed both", false))
	<-reached
	opened := make(chan error, 1)
	go func() {
		opened <- p.doAs(1, 0, abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{Dev: 1},
			&wire.DevicePrimaryCtxRetainReply{})
	}()
	// It may have to wait for the load. Where it does not, it must be done before the load goes on.
	select {
	case err := <-opened:
		opened <- err
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	if err := p.await(loading, &wire.ModuleLoadReply{}); err != nil {
		t.Errorf("load: %v", err)
	}
	if err := <-opened; err != nil {
		t.Errorf("open: %v", err)
	}
	for device := range 2 {
		if got := len(memoryOf(device).hosts); got != 1 {
			t.Errorf("GPU %d has %d ranges of the arena mapped, want 1", device, got)
		}
	}
}
