package gputest

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testDevices(t *testing.T, b *bench) {
	devices := b.backend.Devices()
	if len(devices) == 0 {
		t.Fatal("no devices")
	}
	seen := map[[16]byte]bool{}
	for i, d := range devices {
		if d.Name == "" || d.MemoryBytes < 64<<20 || seen[d.UUID] {
			t.Errorf("device %d: %+v", i, d)
		}
		seen[d.UUID] = true
		for _, attribute := range []abi.DeviceAttribute{
			abi.AttrWarpSize, abi.AttrMaxThreadsPerBlock, abi.AttrMultiprocessorCount,
			abi.AttrComputeCapabilityMajor, abi.AttrMaxSharedMemoryPerBlock, abi.AttrUnifiedAddressing,
		} {
			if d.Attributes[attribute] <= 0 {
				t.Errorf("device %d: attribute %d is %d", i, attribute, d.Attributes[attribute])
			}
		}
	}
	_, err := b.backend.NewContext(len(devices), gpu.ContextOptions{})
	b.want("context on a device that does not exist", err, abi.InvalidDevice)
}

func testMap(t *testing.T, b *bench) {
	m := b.context.Memory()
	r := gpu.Range{Address: b.next, Bytes: 3 * gpu.ChunkBytes}
	b.must(m.Map(r))
	b.same("fresh memory", b.read(r.Address, int(r.Bytes)), make([]byte, r.Bytes))

	data := noise(1, gpu.ChunkBytes+100)
	at := r.Address + gpu.ChunkBytes - 50 // across two chunk boundaries
	b.write(at, data)
	b.same("written memory", b.read(at, len(data)), data)

	if m.Map(r) == nil {
		t.Error("mapped twice")
	}
	for _, wrong := range []gpu.Range{
		{Address: r.End() + 1, Bytes: gpu.ChunkBytes},
		{Address: r.End(), Bytes: 100},
		{Address: r.End()},
	} {
		if m.Map(wrong) == nil {
			t.Errorf("mapped %+v", wrong)
		}
	}
	b.must(m.Unmap(gpu.Range{Address: r.Address + gpu.ChunkBytes, Bytes: gpu.ChunkBytes}))
	if _, err := m.ReadAt(make([]byte, 1), int64(r.Address+gpu.ChunkBytes)); err == nil {
		t.Error("read from unmapped memory")
	}
	if n, err := m.WriteAt(make([]byte, 200), int64(r.Address+gpu.ChunkBytes-100)); err == nil || n != 100 {
		t.Errorf("write into unmapped memory: %d, %v", n, err)
	}
	b.must(m.Map(gpu.Range{Address: r.Address + gpu.ChunkBytes, Bytes: gpu.ChunkBytes}))
	b.same("mapped again", b.read(r.Address+gpu.ChunkBytes, gpu.ChunkBytes), make([]byte, gpu.ChunkBytes))
	b.must(m.Unmap(r))
}

func testAccount(t *testing.T, b *bench) {
	m := b.context.Memory()
	free, total := m.Usage()
	if have := b.backend.Devices()[0].MemoryBytes; total < have || total > have && !b.driven() || free > total {
		t.Errorf("usage: %d of %d free, the device has %d", free, total, have)
	}
	r := gpu.Range{Address: b.next, Bytes: 3 * tableBytes}
	b.must(m.Map(r))
	after, _ := m.Usage()
	b.free("mapped", after, free-r.Bytes)
	b.must(m.Unmap(gpu.Range{Address: r.Address + gpu.ChunkBytes, Bytes: gpu.ChunkBytes}))
	b.must(m.Map(gpu.Range{Address: r.Address + gpu.ChunkBytes, Bytes: gpu.ChunkBytes}))
	after, _ = m.Usage()
	b.free("a part unmapped and mapped again", after, free-r.Bytes)
	b.must(m.Unmap(r))
	after, _ = m.Usage()
	b.free("unmapped", after, free)
}

func testOutOfMemory(_ *testing.T, b *bench) {
	m := b.context.Memory()
	free, _ := m.Usage()
	r := gpu.Range{Address: b.next, Bytes: (free + gpu.ChunkBytes) &^ (gpu.ChunkBytes - 1)}
	b.want("map more than the device has", m.Map(r), abi.OutOfMemory)
	after, _ := m.Usage()
	b.free("a refused mapping", after, free)
	address := b.alloc(1)
	b.write(address, []byte("alive"))
}

func testHostMemory(t *testing.T, b *bench) {
	m := b.context.Memory()
	const address = 0x6100_0000_0000
	arena := b.hostMemory(address, 1<<20)
	b.must(m.MapHost(address, arena))
	data := noise(2, 1<<20)
	src := b.load(data)
	b.run(linear(device(address), device(src), len(data)))
	b.same("copied into host memory", arena, data)
	b.run(gpu.Fill{Address: address + 4, Pattern: 0xabcd, PatternBytes: 2, Columns: 8, Rows: 1})
	b.same(
		"filled host memory",
		arena[:24],
		append(append(data[:4:4], bytes.Repeat([]byte{0xcd, 0xab}, 8)...), data[20:24]...),
	)
	if m.MapHost(address, arena) == nil {
		t.Error("mapped twice")
	}
	b.must(m.UnmapHost(address))
	if _, err := m.ReadAt(make([]byte, 1), address); err == nil {
		t.Error("read from unmapped host memory")
	}
	b.want("unmap twice", m.UnmapHost(address), abi.NotMapped)
}

// formatBits returns the first n dirty bits as digits, the first chunk first.
func formatBits(marks []uint64, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = '0' + byte(marks[i/64]>>(i%64)&1)
	}
	return string(out)
}

func testDirty(t *testing.T, b *bench) {
	tracker, ok := b.context.Memory().(gpu.Tracker)
	if !ok {
		t.Skip("this backend has no dirty tracking")
	}
	r := gpu.Range{Address: b.alloc(6 * gpu.ChunkBytes), Bytes: 6 * gpu.ChunkBytes}
	kernel := b.kernel("store")
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing", func() {}, "000000"},
		{"write", func() { b.write(r.Address, []byte{1}) }, "100000"},
		{"read", func() { b.read(r.Address, int(r.Bytes)) }, "000000"},
		{"write over a boundary", func() { b.write(r.Address+2*gpu.ChunkBytes-1, []byte{1, 2}) }, "011000"},
		{"fill", func() {
			b.run(gpu.Fill{Address: r.Address + 5*gpu.ChunkBytes, PatternBytes: 1, Columns: 1, Rows: 1})
		}, "000001"},
		{"copy", func() { b.run(linear(device(r.Address+4*gpu.ChunkBytes), device(r.Address), 100)) }, "000010"},
		{"copy from the program", func() { b.run(linear(device(r.Address), program(make(host, 8), 0), 8)) }, "100000"},
		{"kernel", func() { b.run(launch(kernel, 1, 1, r.Address+3*gpu.ChunkBytes, uint32(7))) }, "000100"},
	} {
		tracker.ClearDirty(r)
		step.do()
		if got := formatBits(tracker.Dirty(r), 6); got != step.want {
			t.Errorf("%s: dirty %s, want %s", step.name, got, step.want)
		}
	}
}

func testAbsent(t *testing.T, b *bench) {
	lazy, ok := b.context.Memory().(gpu.LazyMapper)
	if !ok {
		t.Skip("this backend has no absent chunks")
	}
	r := gpu.Range{Address: b.next, Bytes: 5 * gpu.ChunkBytes}
	b.next = r.End()
	content := noise(3, int(r.Bytes))
	var fills [5]atomic.Int32
	b.must(lazy.MapAbsent(r, func(address uint64, chunk []byte) error {
		i := (address - r.Address) / gpu.ChunkBytes
		fills[i].Add(1)
		if i == 4 {
			return errors.New("the image is damaged")
		}
		copy(chunk, content[i*gpu.ChunkBytes:])
		return nil
	}))
	counts := func() (out [5]int32) {
		for i := range fills {
			out[i] = fills[i].Load()
		}
		return out
	}
	b.same("read", b.read(r.Address+gpu.ChunkBytes+10, 100), content[gpu.ChunkBytes+10:][:100])
	b.write(r.Address+2*gpu.ChunkBytes, []byte{9})
	if got := counts(); got != [5]int32{0, 1, 1, 0, 0} {
		t.Errorf("fills after two accesses: %v", got)
	}
	b.run(launch(b.kernel("store"), 1, 1, r.Address, uint32(0x01020304)))
	copy(content, []byte{4, 3, 2, 1})
	content[2*gpu.ChunkBytes] = 9
	s1, s2 := b.newStream(), b.newStream()
	out := b.alloc(8 * gpu.ChunkBytes)
	for i, s := range []gpu.Stream{s1, s2} {
		b.submit(s, linear(device(out+uint64(i)*4*gpu.ChunkBytes), device(r.Address), 4*gpu.ChunkBytes))
	}
	b.must(b.context.Synchronize())
	for i := range 2 {
		b.same("copied", b.read(out+uint64(i)*4*gpu.ChunkBytes, 4*gpu.ChunkBytes), content[:4*gpu.ChunkBytes])
	}
	if got := counts(); got != [5]int32{1, 1, 1, 1, 0} {
		t.Errorf("fills in the end: %v", got)
	}
	if _, err := b.context.Memory().ReadAt(make([]byte, 1), int64(r.Address+4*gpu.ChunkBytes)); err == nil {
		t.Error("read of a chunk whose fill failed succeeded")
	}
}
