package session

import (
	"encoding/binary"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// placed is memory of GPU 1 at addresses of GPU 0's window. No context of GPU 1 keeps it open.
func placed(p *program) (at uint64, handle abi.Handle) { return placedOn(p, 1) }

func placedOn(p *program, device int32) (at uint64, handle abi.Handle) {
	var place wire.MemAddressReserveReply
	var made wire.VmmCreateReply
	p.ok(abi.CallMemAddressReserve, &wire.MemAddressReserve{Size: 2 * gpu.ChunkBytes}, &place)
	p.ok(abi.CallVmmCreate, &wire.VmmCreate{Size: 2 * gpu.ChunkBytes, Device: device}, &made)
	p.ok(abi.CallVmmMap, &wire.VmmMap{Ptr: place.Ptr, Size: 2 * gpu.ChunkBytes, Handle: made.Handle}, &wire.VmmMapReply{})
	return place.Ptr, made.Handle
}

func (p *program) mayTouch(at uint64, device int32, flags uint32) {
	p.t.Helper()
	p.ok(abi.CallVmmSetAccess, &wire.VmmSetAccess{Ptr: at, Size: 2 * gpu.ChunkBytes, Device: device, Flags: flags}, nil)
}

// TestMappingOfAnotherGPU has each GPU see only what it may, wherever the memory is, also after a
// restore.
func TestMappingOfAnotherGPU(t *testing.T) {
	const spec = "soft:2,deterministic,memory=64MiB"
	p := softProgram(t, spec, 1<<19)
	p.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	at, handle := placed(p)
	if err := p.copyIn(at, 0, 4); err == nil {
		t.Error("copied to memory without access")
	}
	p.mayTouch(at, 0, 3)
	var f wire.ModuleGetFunctionReply
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: p.load(doubleText), Name: "double"}, &f)
	binary.LittleEndian.PutUint32(p.memory, 21)
	if err := p.copyIn(at, 0, 4); err != nil {
		t.Fatal(err)
	}
	p.ok(abi.CallLaunch, doubleOf(f.Hfunc, 0, at, 1), nil)
	for _, q := range []*program{p, p.twin(spec, true)} {
		q.sees(at, 42)
		q.mayTouch(at, 1, 3)
		q.mayTouch(at, 0, 0)
		q.sees(at, 42) // by the GPU that may
		q.ok(abi.CallMemRelease, &wire.MemRelease{Handle: handle}, nil)
		q.sees(at, 42)
		q.ok(abi.CallMemUnmap, &wire.MemUnmap{Ptr: at, Size: 2 * gpu.ChunkBytes}, nil)
		if err := q.copyOut(8, at, 4); err == nil {
			t.Error("copied from where nothing is mapped")
		}
		if open := q.session.Memories(); len(open) != 1 {
			t.Errorf("%d GPUs are open after the last memory of one is gone", len(open))
		}
	}
}

func (p *program) sees(at uint64, want uint32) {
	p.t.Helper()
	if err := p.copyOut(8, at, 4); err != nil {
		p.t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(p.memory[8:]); got != want {
		p.t.Errorf("%#x holds %d, want %d", at, got, want)
	}
}
