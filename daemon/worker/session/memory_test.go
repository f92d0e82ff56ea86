package session

import (
	"bytes"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// random fills part of the program's memory with bytes that differ, and returns them.
func (p *program) random(at, n int) []byte {
	part := p.memory[at : at+n]
	x := uint32(at*2654435761 + 1)
	for i := range part {
		x = x*1664525 + 1013904223
		part[i] = byte(x >> 24)
	}
	return part
}

func (p *program) copyIn(dst uint64, at, n int) error {
	return p.do(
		abi.CallMemcpyWait,
		&wire.MemcpyWait{Dst: dst, SrcKind: 1, Src: programBase + uint64(at), Width: uint64(n), Height: 1, Depth: 1},
		nil,
	)
}

func (p *program) copyOut(at int, src uint64, n int) error {
	return p.do(
		abi.CallMemcpyWait,
		&wire.MemcpyWait{DstKind: 1, Dst: programBase + uint64(at), Src: src, Width: uint64(n), Height: 1, Depth: 1},
		nil,
	)
}

func TestCopiesThereAndBack(t *testing.T) {
	const far = 4 << 20
	for _, n := range []int{1, 4, gpu.EarlyBytes, gpu.EarlyBytes + 1, 3 << 20} {
		for _, busy := range []bool{false, true} {
			p := newProgram(t)
			var order log
			note := order.kernel(p)
			want := bytes.Clone(p.random(0, n))
			device := p.alloc(uint64(n))
			if busy {
				p.ok(abi.CallLaunch, launchOf(note, 0, 1), nil)
			}
			if err := p.copyIn(device, 0, n); err != nil {
				t.Fatal(err)
			}
			second := p.alloc(uint64(n))
			p.ok(abi.CallMemcpy, &wire.Memcpy{Dst: second, Src: device, Width: uint64(n), Height: 1, Depth: 1}, nil)
			if err := p.copyOut(far, second, n); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(p.memory[far:far+n], want) {
				t.Errorf("%d bytes, busy %v: not the same", n, busy)
			}
		}
	}
}

func TestCopyInlineKeepsItsBytes(t *testing.T) {
	p := newProgram(t)
	gate, open := p.gate()
	defer open()
	device := p.alloc(8)
	p.ok(abi.CallLaunch, launchOf(gate, 0, 0), nil)
	// The stream is held, so the bytes wait; post overwrites the payload as the worker would.
	p.ok(abi.CallMemcpyInline, &wire.MemcpyInline{Dst: device, Bytes: []byte("abcdefgh")}, nil)
	open()
	if err := p.copyOut(0, device, 8); err != nil || string(p.memory[:8]) != "abcdefgh" {
		t.Errorf("%q, %v", p.memory[:8], err)
	}
	p.ok(abi.CallMemcpyInline, &wire.MemcpyInline{Dst: device, Bytes: []byte("ABC")}, nil)
	if err := p.copyOut(0, device, 8); err != nil || string(p.memory[:8]) != "ABCdefgh" {
		t.Errorf("%q, %v", p.memory[:8], err)
	}
}

func TestBoxes(t *testing.T) {
	p := newProgram(t)
	const pitch, rows, slices = 512, 5, 3
	var out wire.MemAllocPitchReply
	p.ok(
		abi.CallMemAllocPitch,
		&wire.MemAllocPitch{WidthInBytes: 100, Height: rows * slices, ElementSizeBytes: 4},
		&out,
	)
	if out.PPitch != pitch {
		t.Fatalf("pitch %d", out.PPitch)
	}
	source := p.random(0, 120*rows*slices)
	in := &wire.MemcpyWait{
		Dst: out.Dptr, DstPitch: pitch, DstSlice: pitch * rows, SrcKind: 1, Src: programBase, SrcPitch: 120, SrcSlice: 120 * rows,
		Width: 100, Height: rows, Depth: slices,
	}
	p.ok(abi.CallMemcpyWait, in, nil)
	for row := range rows * slices {
		if err := p.copyOut(1<<20, out.Dptr+uint64(row*pitch), 100); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p.memory[1<<20:1<<20+100], source[120*row:120*row+100]) {
			t.Fatalf("row %d differs", row)
		}
	}
	p.ok(
		abi.CallMemset,
		&wire.Memset{Address: out.Dptr + 4, Pitch: pitch, Pattern: 0x11223344, PatternBytes: 4, Columns: 2, Rows: 2},
		nil,
	)
	if err := p.copyOut(1<<20, out.Dptr+pitch, 16); err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(source[120:124]), 0x44, 0x33, 0x22, 0x11, 0x44, 0x33, 0x22, 0x11)
	if got := p.memory[1<<20:][:12]; !bytes.Equal(got, want) {
		t.Errorf("memset row % x, want % x", got, want)
	}
}

func TestCopiesRefused(t *testing.T) {
	p := newProgram(t)
	device := p.alloc(4096)
	huge := uint64(1) << 63
	for _, c := range []struct {
		name   string
		number abi.Call
		in     wire.Reply
	}{
		{
			"beyond the allocation", abi.CallMemcpy,
			&wire.Memcpy{Dst: device, Src: device + 1, Width: 4096, Height: 1, Depth: 1},
		},
		{"no memory there", abi.CallMemcpy, &wire.Memcpy{Dst: device, Src: 4096, Width: 1, Height: 1, Depth: 1}},
		{
			"box that wraps around", abi.CallMemcpy,
			&wire.Memcpy{Dst: device, DstPitch: huge, Src: device, SrcPitch: huge, Width: 8, Height: 3, Depth: 1},
		},
		{
			"rows that overlap", abi.CallMemcpy,
			&wire.Memcpy{Dst: device, DstPitch: 4, Src: device, SrcPitch: 4, Width: 8, Height: 2, Depth: 1},
		},
		{
			"width beyond everything", abi.CallMemcpy,
			&wire.Memcpy{Dst: device, Src: device, Width: ^uint64(0), Height: 1, Depth: 1},
		},
		{
			"unreadable program memory", abi.CallMemcpyWait,
			&wire.MemcpyWait{Dst: device, SrcKind: 1, Src: 1, Width: 16, Height: 1, Depth: 1},
		},
		{
			"unwritable program memory", abi.CallMemcpyWait,
			&wire.MemcpyWait{DstKind: 1, Dst: 1, Src: device, Width: 16, Height: 1, Depth: 1},
		},
		{
			"unwritable, in rows", abi.CallMemcpyWait,
			&wire.MemcpyWait{DstKind: 1, Dst: 1, DstPitch: 8, Src: device, SrcPitch: 8, Width: 8, Height: 2, Depth: 1},
		},
		{"memset beyond", abi.CallMemset, &wire.Memset{Address: device, Pattern: 1, PatternBytes: 4, Columns: 1025, Rows: 1}},
		{
			"memset misaligned", abi.CallMemset,
			&wire.Memset{Address: device + 1, Pattern: 1, PatternBytes: 4, Columns: 1, Rows: 1},
		},
		{
			"memset of 3 bytes", abi.CallMemset,
			&wire.Memset{Address: device, Pattern: 1, PatternBytes: 3, Columns: 1, Rows: 1},
		},
		{
			"memset that wraps", abi.CallMemset,
			&wire.Memset{Address: device, Pitch: huge, Pattern: 1, PatternBytes: 1, Columns: 1, Rows: 3},
		},
		{"free inside", abi.CallMemFree, &wire.MemFree{Dptr: device + 512}},
		{"free pinned that is device memory", abi.CallMemFreeHost, &wire.MemFreeHost{P: device}},
	} {
		t.Run(c.name, func(t *testing.T) { p.want(abi.InvalidValue, c.number, c.in, nil) })
	}
	if err := p.copyIn(device, 0, 4096); err != nil {
		t.Errorf("the context is poisoned: %v", err)
	}
}

// TestFreeWaits: memory that running work may use stays until that is done, on every stream of the
// device.
func TestFreeWaits(t *testing.T) {
	p := newProgram(t)
	gate, open := p.gate()
	defer open()
	device := p.alloc(8 * gpu.ChunkBytes)
	other := p.stream(core.NonBlocking)
	p.ok(abi.CallLaunch, launchOf(gate, other, 0), nil)
	p.ok(abi.CallMemFree, &wire.MemFree{Dptr: device}, nil)
	p.want(abi.InvalidValue, abi.CallMemFree, &wire.MemFree{Dptr: device}, nil)
	if backed := p.session.Progress().GPUs[0].BackedBytes; backed != 8*gpu.ChunkBytes {
		t.Errorf("%d bytes backed while the kernel runs", backed)
	}
	// An allocation that only fits into what is being freed waits for it.
	waiting := p.post(1, graph.ModeGlobal, abi.CallMemAlloc, &wire.MemAlloc{Bytesize: 12 * gpu.ChunkBytes})
	open()
	if err := p.await(waiting, nil); err != nil {
		t.Fatal(err)
	}
	p.want(abi.OutOfMemory, abi.CallMemAlloc, &wire.MemAlloc{Bytesize: 5 * gpu.ChunkBytes}, nil)
}

func TestMemGetInfoFollows(t *testing.T) {
	p := newProgram(t)
	var before, after wire.MemGetInfoReply
	p.ok(abi.CallMemGetInfo, nil, &before)
	device := p.alloc(3 << 20)
	p.ok(abi.CallMemGetInfo, nil, &after)
	if before.Total != 16*gpu.ChunkBytes || before.Free-after.Free != 4<<20 {
		t.Errorf("free %d of %d, then %d", before.Free, before.Total, after.Free)
	}
	p.ok(abi.CallMemFree, &wire.MemFree{Dptr: device}, nil)
	p.ok(abi.CallMemGetInfo, nil, &after)
	if after != before {
		t.Errorf("%+v after the free, %+v before", after, before)
	}
}

func TestPinnedMemory(t *testing.T) {
	p := newProgram(t)
	var pinned wire.MemHostAllocReply
	p.ok(abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: 5000}, &pinned)
	var managed wire.MemAllocManagedReply
	p.ok(abi.CallMemAllocManaged, &wire.MemAllocManaged{Bytesize: 100, Flags: 1}, &managed)
	p.want(abi.InvalidValue, abi.CallMemAllocManaged, &wire.MemAllocManaged{Bytesize: 100}, nil)
	p.want(abi.InvalidValue, abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: 100, Flags: 64}, nil)
	p.want(abi.OutOfMemory, abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: 2 << 20}, nil)
	// The program and the device see the same bytes.
	device := p.alloc(16)
	copy(p.arena[pinned.Pp-arenaBase:], "from the program")
	p.ok(abi.CallMemcpy, &wire.Memcpy{Dst: device, Src: pinned.Pp, Width: 16, Height: 1, Depth: 1}, nil)
	p.ok(abi.CallMemcpy, &wire.Memcpy{Dst: managed.Dptr, Src: device, Width: 16, Height: 1, Depth: 1}, nil)
	syncContext(p)
	if got := string(p.arena[managed.Dptr-arenaBase:][:16]); got != "from the program" {
		t.Errorf("managed memory holds %q", got)
	}
	p.want(abi.InvalidValue, abi.CallMemFree, &wire.MemFree{Dptr: pinned.Pp}, nil)
	p.want(abi.InvalidValue, abi.CallMemFreeHost, &wire.MemFreeHost{P: managed.Dptr}, nil)
	p.ok(abi.CallMemFree, &wire.MemFree{Dptr: managed.Dptr}, nil)
	p.ok(abi.CallMemFreeHost, &wire.MemFreeHost{P: pinned.Pp}, nil)
	p.freesReach(2)
}

func TestPools(t *testing.T) {
	p := newProgram(t)
	var def, cur wire.DeviceGetDefaultMemPoolReply
	p.ok(abi.CallDeviceGetDefaultMemPool, &wire.DeviceGetDefaultMemPool{}, &def)
	p.want(abi.InvalidDevice, abi.CallDeviceGetDefaultMemPool, &wire.DeviceGetDefaultMemPool{Dev: 7}, &cur)
	p.want(abi.InvalidValue, abi.CallMemPoolDestroy, &wire.MemPoolDestroy{Pool: def.PoolOut}, nil)
	p.ok(
		abi.CallMemPoolSetAttribute,
		&wire.MemPoolSetAttribute{Pool: def.PoolOut, Attribute: poolThreshold, Value: 1 << 30},
		nil,
	)
	p.want(
		abi.InvalidValue,
		abi.CallMemPoolSetAttribute,
		&wire.MemPoolSetAttribute{Pool: def.PoolOut, Attribute: poolUsed},
		nil,
	)
	gate, open := p.gate()
	defer open()
	st := p.stream(0)
	var out wire.MemAllocFromPoolAsyncReply
	p.ok(abi.CallMemAllocFromPoolAsync, &wire.MemAllocFromPoolAsync{Bytesize: 1000, HStream: st}, &out)
	p.ok(abi.CallLaunch, launchOf(gate, st, 0), nil)
	p.ok(abi.CallMemFreeAsync, &wire.MemFreeAsync{Dptr: out.Dptr, HStream: st}, nil)
	get := func(attribute uint32) uint64 {
		var value wire.MemPoolGetAttributeReply
		p.ok(abi.CallMemPoolGetAttribute, &wire.MemPoolGetAttribute{Pool: def.PoolOut, Attribute: attribute}, &value)
		return value.Value
	}
	if get(poolThreshold) != 1<<30 || get(poolUsed) != 1000 || get(poolReuseFirst) != 1 {
		t.Error("attributes")
	}
	open()
	syncContext(p)
	if get(poolUsed) != 0 || get(poolUsedHigh) != 1000 {
		t.Errorf("used %d, high %d", get(poolUsed), get(poolUsedHigh))
	}
	var small wire.MemPoolCreateReply
	p.ok(abi.CallMemPoolCreate, &wire.MemPoolCreate{MaxBytes: 4096}, &small)
	p.want(
		abi.OutOfMemory,
		abi.CallMemAllocFromPoolAsync,
		&wire.MemAllocFromPoolAsync{Bytesize: 5000, Pool: small.Pool},
		nil,
	)
	p.ok(abi.CallMemPoolDestroy, &wire.MemPoolDestroy{Pool: small.Pool}, nil)
}

// TestNothingIsLeft ends contexts with work, memory, events and modules in them.
func TestNothingIsLeft(t *testing.T) {
	p := newProgram(t)
	f := p.kernel("nothing", nil)
	var created wire.CtxCreateReply
	p.ok(abi.CallCtxCreate, &wire.CtxCreate{Dev: 0}, &created)
	primary := p.context
	for _, c := range []abi.Handle{primary, created.Pctx} {
		p.context = c
		p.alloc(1000)
		p.alloc(5 << 20)
		st := p.stream(0)
		e, _ := p.event()
		p.load(".global counter")
		var pinned wire.MemHostAllocReply
		p.ok(abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: 10}, &pinned)
		p.ok(abi.CallLaunch, launchOf(f, st, 0), nil)
		p.ok(abi.CallLaunch, launchOf(f, abi.StreamPerThread, 0), nil)
		p.ok(abi.CallEventRecord, &wire.EventRecord{Event: e, Stream: st}, nil)
	}
	p.ok(abi.CallCtxDestroy, &wire.CtxDestroy{Ctx: created.Pctx}, nil)
	p.want(abi.ContextIsDestroyed, abi.CallMemAlloc, &wire.MemAlloc{Bytesize: 1}, nil)
	p.want(abi.InvalidContext, abi.CallCtxDestroy, &wire.CtxDestroy{Ctx: primary}, nil)
	if p.backend.open != 1 {
		t.Errorf("%d GPU contexts open, want 1", p.backend.open)
	}
	p.ok(abi.CallDevicePrimaryCtxRelease, &wire.DevicePrimaryCtxRelease{}, nil)
	p.want(abi.InvalidContext, abi.CallDevicePrimaryCtxRelease, &wire.DevicePrimaryCtxRelease{}, nil)
	b := p.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != 0 || b.events != 0 || b.streams != 0 || b.modules != 0 {
		t.Errorf("left: %d contexts, %d events, %d streams, %d modules", b.open, b.events, b.streams, b.modules)
	}
	p.freesReach(2)
	for o := range p.session.core.Objects.Records() {
		if o.Kind != abi.KindMemoryPool {
			t.Errorf("%v is left", o.Handle())
		}
	}
}

// TestRecordsCanBeReplayed looks at what a restore will work from: which call made what, from
// which arguments, in which order.
func TestRecordsCanBeReplayed(t *testing.T) {
	p := newProgram(t)
	device := p.alloc(12345)
	f := p.kernel("nothing", nil)
	var maker object.Maker
	var functionSeen bool
	var last uint64
	for o := range p.session.core.Objects.Records() {
		if o.Sequence <= last {
			t.Fatal("not in the order of creation")
		}
		last = o.Sequence
		switch {
		case o.ID == device:
			maker = o.Maker
		case o.Handle() == f:
			functionSeen = o.Parent.Kind == abi.KindModule && o.Parent.Maker.Image != nil &&
				len(o.Parent.Maker.Image.Bytes) > 0
		}
	}
	var in wire.MemAlloc
	if maker.Call != abi.CallMemAlloc || in.Decode(maker.Payload) != nil || in.Bytesize != 12345 {
		t.Errorf("maker %v % x", maker.Call, maker.Payload)
	}
	if !functionSeen {
		t.Error("the function's module has no image")
	}
}
