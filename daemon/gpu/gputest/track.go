package gputest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testFresh(t *testing.T, b *bench) {
	tracker, offers := b.context.Memory().(gpu.Tracker)
	if !offers {
		t.Skip("this backend does not mark written chunks")
	}
	m := b.context.Memory()
	r := gpu.Range{Address: b.alloc(4 * gpu.ChunkBytes), Bytes: 4 * gpu.ChunkBytes}
	second := gpu.Range{Address: r.Address + gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
	check := func(when, fresh, written string) {
		t.Helper()
		if got := marked(tracker.Fresh(r), 4); got != fresh {
			t.Errorf("%s: fresh %s, want %s", when, got, fresh)
		}
		if got := marked(tracker.Written(r), 4); got != written {
			t.Errorf("%s: written %s, want %s", when, got, written)
		}
	}
	check("mapped", "1111", "0000")
	b.read(r.Address, int(r.Bytes))
	check("read", "1111", "0000")
	b.write(second.Address, []byte{1})
	check("written", "1011", "0100")
	if got := marked(tracker.ClearWritten(r), 4); got != "0100" {
		t.Errorf("cleared %s", got)
	}
	if got := marked(tracker.ClearWritten(r), 4); got != "0000" {
		t.Errorf("cleared twice: %s", got)
	}
	check("cleared", "1011", "0000")
	b.must(m.Unmap(second))
	b.must(m.Map(second))
	check("mapped again", "1111", "0000")
	b.run(launch(b.kernel("store"), 1, 1, r.Address, uint32(7)))
	check("stored to", "0111", "1000")
	if lazy, offers := m.(gpu.Lazy); offers {
		b.must(m.Unmap(second))
		b.must(lazy.MapAbsent(second, func(uint64, []byte) error { return nil }))
		check("absent", "0011", "1000")
		b.read(second.Address, 1)
		check("brought", "0011", "1000")
	}
}

func testDigests(t *testing.T, b *bench) {
	digester, offers := b.context.Memory().(gpu.Digester)
	if !offers {
		t.Skip("this backend does not digest")
	}
	const chunks = 5
	data := noise(11, chunks*gpu.ChunkBytes)
	copy(data[3*gpu.ChunkBytes:], data[:gpu.ChunkBytes])
	r := gpu.Range{Address: b.load(data), Bytes: chunks * gpu.ChunkBytes}
	key := digest.NewKey()
	take := func(key gpu.DigestKey) []gpu.Digest {
		t.Helper()
		// The last chunk first, and between them one that is not mapped.
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
			t.Fatalf("%d digests", len(digests))
		}
		if digests[1] != (gpu.Digest{}) {
			t.Errorf("what is not mapped has the digest %x", digests[1])
		}
		return append(digests[2:], digests[0])
	}
	before := take(key)
	for i, d := range before {
		if d != digester.DigestCopy(key, data[i*gpu.ChunkBytes:][:gpu.ChunkBytes]) {
			t.Errorf("chunk %d: the digest of a copy is another", i)
		}
		if (d == before[0]) != (i == 0 || i == 3) {
			t.Errorf("chunk %d: %x; only 0 and 3 are the same", i, d)
		}
	}
	if other := take(digest.NewKey()); other[0] == before[0] {
		t.Error("the key makes no difference")
	}
	// One bit, anywhere.
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
		t.Error("the same content has other digests")
	}
	r.Address += 512
	if _, err := digester.Digests(key, []gpu.Range{r}); err == nil {
		t.Error("digested parts of chunks")
	}
}

func testShadows(t *testing.T, b *bench) {
	shadower, offers := b.context.Memory().(gpu.Shadower)
	if !offers {
		t.Skip("this backend puts no copies aside")
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
		t.Fatalf("room for %d, %d copies of %d chunks", room, len(copies), chunks)
	}
	b.write(address, noise(13, chunks*gpu.ChunkBytes))
	content := make([]byte, gpu.ChunkBytes)
	for i, c := range copies {
		b.must(c.Read(content))
		if !bytes.Equal(content, data[order[i]*gpu.ChunkBytes:][:gpu.ChunkBytes]) {
			t.Errorf("the copy of chunk %d is not what it held", order[i])
		}
		b.must(c.Release())
	}
	b.must(shadows.Close())
	after, _ := b.context.Memory().Usage()
	b.free("without shadows", after, before)
}

// testShadowsLeft: a context may end when no copy is held any more, and before the checkpoint that
// has made them.
func testShadowsLeft(t *testing.T, b *bench) {
	shadower, offers := b.context.Memory().(gpu.Shadower)
	if !offers {
		t.Skip("this backend puts no copies aside")
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
	shadower.Settle()
	b.must(b.context.Close())
	b.must(shadows.Close())
	next, err := b.backend.NewContext(0, gpu.ContextOptions{})
	b.must(err)
	after, _ := next.Memory().Usage()
	b.free("in the next context", after, before)
	b.must(next.Close())
}

// testEnded: a checkpoint that comes upon a context that has ended meanwhile finds nothing there
// any more, and not that it has failed.
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
				t.Errorf("what is mapped has the digests %x", digests)
			}
		}
		b.must(context.Close())
		n, err := m.ReadAt(make([]byte, r.Bytes), int64(r.Address))
		b.want("read", err, abi.IllegalAddress)
		if n != 0 {
			t.Errorf("%d bytes were read", n)
		}
		if !offers {
			continue
		}
		digests, err := digester.Digests(digest.NewKey(), []gpu.Range{r})
		b.must(err)
		if !slices.Equal(digests, make([]gpu.Digest, 2)) {
			t.Errorf("what is gone has the digests %x", digests)
		}
	}
}

func testPinned(t *testing.T, b *bench) {
	pinner, offers := b.context.Memory().(gpu.Pinner)
	if !offers {
		t.Skip("this backend has no use for pinned memory")
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
	b.same("read beside it", into[gpu.ChunkBytes:], data)
}

func testTouches(t *testing.T, b *bench) {
	toucher, offers := b.context.Memory().(gpu.Toucher)
	if !offers {
		t.Skip("this backend does not record touches")
	}
	const chunks = 8
	address := b.alloc(chunks * gpu.ChunkBytes)
	at := func(i uint64) uint64 { return address + i*gpu.ChunkBytes }
	b.read(at(7), 1)
	check := func(when string, want ...uint64) {
		t.Helper()
		got := toucher.Touches()
		for i := range got {
			got[i] = (got[i] - address) / gpu.ChunkBytes
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: touched %v, want %v", when, got, want)
		}
	}
	kernel := b.kernel("store")
	toucher.RecordTouches(true)
	b.run(launch(kernel, 1, 1, at(5), uint32(7)))
	b.read(at(2), 8)
	b.run(launch(kernel, 1, 1, at(2), uint32(7)), launch(kernel, 1, 1, at(5)+64, uint32(7)))
	b.run(linear(device(at(6)), device(at(0)), gpu.ChunkBytes))
	if viewer, offers := b.context.Memory().(gpu.Viewer); offers {
		b.must(viewer.View(gpu.Range{Address: at(1), Bytes: gpu.ChunkBytes}, func([]byte) error { return nil }))
	}
	check("recorded", 5, 2, 6, 0)
	toucher.RecordTouches(false)
	b.write(at(3), []byte{1})
	check("stopped", 5, 2, 6, 0)
	toucher.RecordTouches(true)
	b.read(at(0), chunks*gpu.ChunkBytes)
	check("in one sweep", 0, 1, 2, 3, 4, 5, 6, 7)
	toucher.RecordTouches(false)
}
