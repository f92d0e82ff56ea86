package gputest

import (
	"encoding/binary"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testCopyLines(t *testing.T, b *bench) {
	for _, n := range []int{0, 1, 63, 4096, gpu.ChunkBytes - 1, 5*gpu.ChunkBytes + 17} {
		data := noise(uint64(n), n)
		from, to := b.alloc(n+16)+1, b.alloc(n+16)+3
		back := make(host, n+8)
		b.run(
			linear(device(from), program(append(make(host, 5), data...), 5), n),
			linear(device(to), device(from), n),
			linear(program(back, 2), device(to), n),
		)
		b.same("copied to the device and back", back[2:2+n], data)
		b.same("bytes around the copy", append(back[:2:2], back[2+n:]...), make([]byte, 8))
		if n > 100 && !b.driven() {
			// Copies with overlapping source and destination, undefined in CUDA.
			b.run(linear(device(from+50), device(from), n-50), linear(device(to), device(to+50), n-50))
			b.same("forward overlap", b.read(from+50, n-50), data[:n-50])
			b.same("backward overlap", b.read(to, n-50), data[50:])
		}
	}
}

// box describes pitched memory, and the start of a copy in it.
type box struct{ start, row, slice uint64 }

func testCopyBoxes(t *testing.T, b *bench) {
	const size = 400_000
	for _, c := range []struct {
		name     string
		extent   [3]uint64
		dst, src box
	}{
		{"plane", [3]uint64{100, 50, 1}, box{7, 128, 0}, box{3, 200, 0}},
		{"packed plane", [3]uint64{128, 50, 1}, box{0, 128, 0}, box{0, 128, 0}},
		{"packed on one side", [3]uint64{96, 70, 1}, box{1, 96, 0}, box{2, 1000, 0}},
		{"cube", [3]uint64{30, 20, 10}, box{5, 64, 64 * 30}, box{11, 40, 40 * 25}},
		{"packed slices", [3]uint64{64, 20, 10}, box{0, 64, 64 * 20}, box{0, 64, 64 * 20}},
		{"gaps between slices", [3]uint64{64, 20, 10}, box{0, 64, 64 * 21}, box{0, 64, 64 * 20}},
		{"rows as slices", [3]uint64{100, 1, 30}, box{0, 0, 300}, box{4, 0, 200}},
		{"one byte", [3]uint64{1, 1, 1}, box{9, 0, 0}, box{8, 0, 0}},
		{"narrow column", [3]uint64{4, 3000, 1}, box{0, 4, 0}, box{0, 128, 0}},
		{"nothing", [3]uint64{100, 0, 1}, box{0, 128, 0}, box{0, 128, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, before := noise(4, size), noise(5, size)
			want := append([]byte(nil), before...)
			for z := range c.extent[2] {
				for y := range c.extent[1] {
					to, from := c.dst.start+z*c.dst.slice+y*c.dst.row, c.src.start+z*c.src.slice+y*c.src.row
					copy(want[to:to+c.extent[0]], data[from:from+c.extent[0]])
				}
			}
			onDevice := b.load(data)
			for name, src := range map[string]gpu.Place{"device": device(onDevice), "program": program(data, 0)} {
				target := b.load(before)
				back := append(host(nil), before...)
				for _, dst := range []gpu.Place{device(target), program(back, 0)} {
					dst.Address += c.dst.start
					from := src
					from.Address += c.src.start
					dst.RowPitch, dst.SlicePitch, from.RowPitch, from.SlicePitch = c.dst.row, c.dst.slice, c.src.row, c.src.slice
					b.run(gpu.Copy{Dst: dst, Src: from, Extent: c.extent})
				}
				b.same("from "+name+" to device", b.read(target, size), want)
				b.same("from "+name+" to program", back, want)
			}
		})
	}
}

func testCopyHostError(t *testing.T, b *bench) {
	const width, rows = 1000, 5000 // more than goes into one piece
	address := b.alloc(width * rows)
	on, off := device(address), program(make(host, 10), 0)
	on.RowPitch, off.RowPitch = width, width
	b.run(linear(on, off, 100), linear(off, on, 100))
	b.run(
		gpu.Copy{Dst: on, Src: off, Extent: [3]uint64{width, rows, 1}},
		gpu.Copy{Dst: off, Src: on, Extent: [3]uint64{width, rows, 1}},
	)
	if err := b.context.Fault(); err != nil {
		t.Errorf("context poisoned by an invalid program address: %v", err)
	}
}

func testCopyRefused(_ *testing.T, b *bench) {
	s := b.newStream()
	address := b.alloc(1000)
	place := func(row, slice uint64) gpu.Place {
		return gpu.Place{Address: address, RowPitch: row, SlicePitch: slice}
	}
	for name, work := range map[string]gpu.Work{
		"rows overlap":   gpu.Copy{Dst: place(9, 0), Src: place(10, 0), Extent: [3]uint64{10, 2, 1}},
		"slices overlap": gpu.Copy{Dst: place(10, 100), Src: place(10, 19), Extent: [3]uint64{10, 2, 2}},
		"overflow":       gpu.Copy{Dst: place(1<<63, 0), Src: place(1<<63, 0), Extent: [3]uint64{1 << 40, 1 << 40, 1}},
		"pattern":        gpu.Fill{Address: address, PatternBytes: 3, Columns: 1, Rows: 1},
		"alignment":      gpu.Fill{Address: address + 1, PatternBytes: 2, Columns: 1, Rows: 1},
		"fill pitch":     gpu.Fill{Address: address, PatternBytes: 4, Columns: 4, Rows: 2, RowPitch: 8},
		"no function":    gpu.Call{},
	} {
		b.want(name, s.Submit(work), abi.InvalidValue)
	}
	b.must(s.Synchronize())
}

func testFill(t *testing.T, b *bench) {
	for _, c := range []gpu.Fill{
		{Pattern: 0xff, PatternBytes: 1, Columns: 1000, Rows: 1},
		{Address: 2, Pattern: 0x1234, PatternBytes: 2, Columns: 77, Rows: 1},
		{Address: 4, Pattern: 0xdeadbeef, PatternBytes: 4, Columns: 3, Rows: 20, RowPitch: 40},
		{Pattern: 0, PatternBytes: 4, Columns: 10, Rows: 20, RowPitch: 40},
		{Address: 8, Pattern: 0x01020304, PatternBytes: 4, Columns: 5 * gpu.ChunkBytes / 4, Rows: 1},
		{Pattern: 1, PatternBytes: 1, Columns: 0, Rows: 1},
	} {
		size := int(c.Address + max(c.RowPitch*c.Rows, c.Columns*uint64(c.PatternBytes)) + 100)
		want := noise(6, size)
		address := b.load(want)
		var pattern [4]byte
		binary.LittleEndian.PutUint32(pattern[:], c.Pattern)
		for row := range c.Rows {
			for column := range c.Columns {
				copy(want[c.Address+row*c.RowPitch+column*uint64(c.PatternBytes):], pattern[:c.PatternBytes])
			}
		}
		fill := c
		fill.Address += address
		b.run(fill)
		b.same("fill", b.read(address, size), want)
		_ = t
	}
}

// testCopyHostOnly submits copies that touch no device memory behind a word that is not met yet.
// Submit must not wait: the program may meet the word in its next call.
func testCopyHostOnly(t *testing.T, b *bench) {
	const address, n, pitch = 0x6100_0000_0000, 2 * gpu.EarlyBytes, 256
	arena := b.hostMemory(address, 2*n)
	b.must(b.context.Memory().MapHost(address, arena))
	data, back, word := noise(6, n), make(host, n), b.alloc(8)
	to := arena[:n]
	copy(arena[n:], data)
	heads, begin := make([]byte, n), append(data[:9:9], make([]byte, n-9)...)
	for at := 0; at < n; at += pitch {
		heads[at] = data[at]
	}
	row := func(at uint64) gpu.Place { return gpu.Place{Address: at, RowPitch: pitch} }
	for _, c := range []struct {
		name          string
		work          gpu.Copy
		written, want []byte
	}{
		{"line", linear(device(address), device(address+n), n), to, data},
		{"rows", gpu.Copy{Dst: row(address), Src: row(address + n), Extent: [3]uint64{1, n / pitch, 1}}, to, heads},
		{"from program", linear(device(address), program(data, 0), n), to, data},
		{"early from program", linear(device(address), program(data, 0), 9), to, begin},
		{"to program", linear(program(back, 0), device(address+n), n), back, data},
	} {
		t.Run(c.name, func(*testing.T) {
			clear(to)
			b.write(word, make([]byte, 8))
			s, behind := b.newStream(), b.alloc(n)
			met := gpu.MemoryOp{Wait: true, Until: gpu.UntilEqual, Bytes: 4, Address: word, Value: 1}
			b.submit(s, gpu.MemoryOps{Ops: []gpu.MemoryOp{met}}, c.work, linear(device(behind), device(address), n))
			b.want("before the word is met", s.Query(), abi.NotReady)
			b.same("before the word is met", c.written, make([]byte, n))
			b.write(word, []byte{1})
			b.must(s.Synchronize())
			b.same("copied", c.written, c.want)
			b.same("copied after that", b.read(behind, n), to)
		})
	}
}
