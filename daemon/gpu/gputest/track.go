package gputest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testNeverWritten(t *testing.T, b *bench) {
	tracker, offers := b.context.Memory().(gpu.Tracker)
	if !offers {
		t.Skip("this backend has no dirty tracking")
	}
	m := b.context.Memory()
	r := gpu.Range{Address: b.alloc(4 * gpu.ChunkBytes), Bytes: 4 * gpu.ChunkBytes}
	second := gpu.Range{Address: r.Address + gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
	check := func(when, fresh, written string) {
		t.Helper()
		if got := formatBits(tracker.NeverWritten(r), 4); got != fresh {
			t.Errorf("%s: never written %s, want %s", when, got, fresh)
		}
		if got := formatBits(tracker.Dirty(r), 4); got != written {
			t.Errorf("%s: dirty %s, want %s", when, got, written)
		}
	}
	check("mapped", "1111", "0000")
	b.read(r.Address, int(r.Bytes))
	check("read", "1111", "0000")
	b.write(second.Address, []byte{1})
	check("written", "1011", "0100")
	if got := formatBits(tracker.ClearDirty(r), 4); got != "0100" {
		t.Errorf("cleared %s, want 0100", got)
	}
	if got := formatBits(tracker.ClearDirty(r), 4); got != "0000" {
		t.Errorf("second clear: got %s, want 0000", got)
	}
	check("cleared", "1011", "0000")
	b.must(m.Unmap(second))
	b.must(m.Map(second))
	check("mapped again", "1111", "0000")
	b.run(launch(b.kernel("store"), 1, 1, r.Address, uint32(7)))
	check("stored to", "0111", "1000")
	if lazy, offers := m.(gpu.LazyMapper); offers {
		b.must(m.Unmap(second))
		b.must(lazy.MapAbsent(second, func(uint64, []byte) error { return nil }))
		check("absent", "0011", "1000")
		b.read(second.Address, 1)
		check("filled", "0011", "1000")
	}
}

func testDigests(t *testing.T, b *bench) {
	digester, offers := b.context.Memory().(gpu.Digester)
	if !offers {
		t.Skip("this backend has no digests")
	}
	const chunks = 5
	data := noise(11, chunks*gpu.ChunkBytes)
	copy(data[3*gpu.ChunkBytes:], data[:gpu.ChunkBytes])
	r := gpu.Range{Address: b.load(data), Bytes: chunks * gpu.ChunkBytes}
	key := digest.NewKey()
	take := func(key gpu.DigestKey) []gpu.Digest {
		t.Helper()
		// The last chunk first, and an unmapped chunk in between.
		last, gone := r.Address+r.Bytes-gpu.ChunkBytes, b.alloc(gpu.ChunkBytes)
		b.must(b.context.Memory().Unmap(gpu.Range{Address: gone, Bytes: gpu.ChunkBytes}))
		digests, err := digester.Digests(key, []gpu.Range{
			{
				Address: last,
				Bytes:   gpu.ChunkBytes,
			}, {Address: gone, Bytes: gpu.ChunkBytes}, {Address: r.Address, Bytes: r.Bytes - gpu.ChunkBytes},
		})
		b.must(err)
		if len(digests) != chunks+1 {
			t.Fatalf("got %d digests", len(digests))
		}
		if digests[1] != (gpu.Digest{}) {
			t.Errorf("digest of an unmapped chunk: got %x, want 0", digests[1])
		}
		return append(digests[2:], digests[0])
	}
	before := take(key)
	for i, d := range before {
		if d != digester.DigestCopy(key, data[i*gpu.ChunkBytes:][:gpu.ChunkBytes]) {
			t.Errorf("chunk %d: digest of a copy differs", i)
		}
		if (d == before[0]) != (i == 0 || i == 3) {
			t.Errorf("chunk %d: got %x, want equal digests for chunks 0 and 3 only", i, d)
		}
	}
	if other := take(digest.NewKey()); other[0] == before[0] {
		t.Error("digests under different keys are equal")
	}
	// Flip one bit, anywhere.
	for i, at := range []uint64{0, gpu.ChunkBytes + 1, 3*gpu.ChunkBytes - 1, 4*gpu.ChunkBytes + 12345} {
		b.write(r.Address+at, []byte{data[at] ^ 1<<i})
		for chunk, d := range take(key) {
			if changed := uint64(chunk) == at/gpu.ChunkBytes; changed == (d == before[chunk]) {
				t.Errorf("byte %d changed: chunk %d differs: %v", at, chunk, !changed)
			}
		}
		b.write(r.Address+at, data[at:at+1])
	}
	if !slices.Equal(take(key), before) {
		t.Error("digests of the same content differ")
	}
	r.Address += 512
	if _, err := digester.Digests(key, []gpu.Range{r}); err == nil {
		t.Error("a range of partial chunks was digested")
	}
}

func testShadows(t *testing.T, b *bench) {
	shadower, offers := b.context.Memory().(gpu.Shadower)
	if !offers {
		t.Skip("this backend has no shadows")
	}
	const chunks = 3
	data := noise(12, chunks*gpu.ChunkBytes)
	address := b.load(data)
	before, _ := b.context.Memory().Usage()
	shadows, room, err := shadower.NewShadows(1)
	b.must(err)
	order := []uint64{2, 0, 1}
	var addresses []uint64
	for _, chunk := range order {
		addresses = append(addresses, address+chunk*gpu.ChunkBytes)
	}
	copies, err := shadows.Copy(addresses)
	b.must(err)
	if len(copies) > chunks || len(copies) < min(room, chunks) {
		t.Fatalf("room for %d, got %d copies of %d chunks", room, len(copies), chunks)
	}
	b.write(address, noise(13, chunks*gpu.ChunkBytes))
	content := make([]byte, gpu.ChunkBytes)
	for i, c := range copies {
		b.must(c.Read(content))
		if !bytes.Equal(content, data[order[i]*gpu.ChunkBytes:][:gpu.ChunkBytes]) {
			t.Errorf("copy of chunk %d differs", order[i])
		}
		b.must(c.Release())
	}
	b.must(shadows.Close())
	after, _ := b.context.Memory().Usage()
	b.free("without shadows", after, before)
}

// testShadowsLeft closes a context after all shadows are released, and before the checkpoint closes
// its Shadows.
func testShadowsLeft(t *testing.T, b *bench) {
	shadower, offers := b.context.Memory().(gpu.Shadower)
	if !offers {
		t.Skip("this backend has no shadows")
	}
	before, _ := b.context.Memory().Usage()
	address := b.load(noise(12, gpu.ChunkBytes))
	shadows, _, err := shadower.NewShadows(1)
	b.must(err)
	copies, err := shadows.Copy([]uint64{address})
	b.must(err)
	for _, c := range copies {
		b.must(c.Release())
	}
	shadower.WaitReleased()
	b.must(b.context.Close())
	b.must(shadows.Close())
	next, err := b.backend.NewContext(0, gpu.ContextOptions{})
	b.must(err)
	after, _ := next.Memory().Usage()
	b.free("in the next context", after, before)
	b.must(next.Close())
}

// testEnded closes a context during a checkpoint. The checkpoint must find no memory, but no error
// either.
func testEnded(t *testing.T, b *bench) {
	for _, before := range []bool{true, false} {
		context := b.newContext()
		r := gpu.Range{Address: b.next, Bytes: 2 * gpu.ChunkBytes}
		m := context.Memory()
		b.must(m.Map(r))
		digester, offers := m.(gpu.Digester)
		if offers && before {
			digests, err := digester.Digests(digest.NewKey(), []gpu.Range{r})
			b.must(err)
			if slices.Contains(digests, gpu.Digest{}) {
				t.Errorf("digests of mapped memory are %x", digests)
			}
		}
		b.must(context.Close())
		n, err := m.ReadAt(make([]byte, r.Bytes), int64(r.Address))
		b.want("read", err, abi.IllegalAddress)
		if n != 0 {
			t.Errorf("read %d bytes from a closed context", n)
		}
		if !offers {
			continue
		}
		digests, err := digester.Digests(digest.NewKey(), []gpu.Range{r})
		b.must(err)
		if !slices.Equal(digests, make([]gpu.Digest, 2)) {
			t.Errorf("digests of a closed context are %x", digests)
		}
	}
}

func testPinned(t *testing.T, b *bench) {
	pinner, offers := b.context.Memory().(gpu.Pinner)
	if !offers {
		t.Skip("this backend cannot pin memory")
	}
	data := noise(14, gpu.ChunkBytes)
	address := b.load(data)
	into := b.hostMemory(0x6200_0000_0000, 2*gpu.ChunkBytes)
	for range 2 {
		clear(into)
		unpin, err := pinner.Pin(into[:gpu.ChunkBytes])
		b.must(err)
		_, err = b.context.Memory().ReadAt(into[:gpu.ChunkBytes], int64(address))
		b.must(err)
		b.same("read into pinned memory", into[:gpu.ChunkBytes], data)
		b.must(unpin())
	}
	_, err := b.context.Memory().ReadAt(into[gpu.ChunkBytes:], int64(address))
	b.must(err)
	b.same("read into the rest", into[gpu.ChunkBytes:], data)
}

func testAccesses(t *testing.T, b *bench) {
	toucher, offers := b.context.Memory().(gpu.AccessRecorder)
	if !offers {
		t.Skip("this backend does not record accesses")
	}
	const chunks = 8
	address := b.alloc(chunks * gpu.ChunkBytes)
	at := func(i uint64) uint64 { return address + i*gpu.ChunkBytes }
	b.read(at(7), 1)
	check := func(when string, want ...uint64) {
		t.Helper()
		got := toucher.Accesses()
		for i := range got {
			got[i] = (got[i] - address) / gpu.ChunkBytes
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: accessed %v, want %v", when, got, want)
		}
	}
	kernel := b.kernel("store")
	toucher.RecordAccesses(true)
	b.run(launch(kernel, 1, 1, at(5), uint32(7)))
	b.read(at(2), 8)
	b.run(launch(kernel, 1, 1, at(2), uint32(7)), launch(kernel, 1, 1, at(5)+64, uint32(7)))
	b.run(linear(device(at(6)), device(at(0)), gpu.ChunkBytes))
	if viewer, offers := b.context.Memory().(gpu.Viewer); offers {
		b.must(viewer.View(gpu.Range{Address: at(1), Bytes: gpu.ChunkBytes}, func([]byte) error { return nil }))
	}
	check("recorded", 5, 2, 6, 0)
	toucher.RecordAccesses(false)
	b.write(at(3), []byte{1})
	check("stopped", 5, 2, 6, 0)
	toucher.RecordAccesses(true)
	b.read(at(0), chunks*gpu.ChunkBytes)
	check("in one copy", 0, 1, 2, 3, 4, 5, 6, 7)
	toucher.RecordAccesses(false)
}
