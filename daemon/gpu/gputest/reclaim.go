package gputest

import (
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// part is some chunks of a range.
func part(r gpu.Range, from, count uint64) gpu.Range {
	return gpu.Range{Address: r.Address + from*gpu.ChunkBytes, Bytes: count * gpu.ChunkBytes}
}

// testKept: memory that is kept is nobody's, and used again in any pieces.
func testKept(t *testing.T, b *bench) {
	m := b.context.Memory()
	keeper, keeps := m.(gpu.Keeper)
	if !keeps {
		t.Skip("this backend gives memory back at once")
	}
	free, _ := m.Usage()
	r := gpu.Range{Address: b.next, Bytes: 8 * gpu.ChunkBytes}
	b.must(m.Map(part(r, 0, 6)))
	b.write(r.Address, noise(1, 6*gpu.ChunkBytes))
	b.must(m.Unmap(part(r, 0, 6)))
	if keeper.Kept() != 6*gpu.ChunkBytes {
		t.Errorf("%d bytes are kept", keeper.Kept())
	}
	now, _ := m.Usage()
	b.free("kept memory", now, free)
	if _, err := m.ReadAt(make([]byte, 1), int64(r.Address)); err == nil {
		t.Error("read memory that was freed")
	}
	b.want("whole memory where some is kept", keeper.MapWhole(part(r, 5, 2)), gpu.ErrKept)

	b.must(m.Map(part(r, 1, 2)))
	b.must(m.Map(part(r, 4, 4))) // beyond what is kept
	b.same("memory used again", b.read(part(r, 1, 1).Address, 2*gpu.ChunkBytes), make([]byte, 2*gpu.ChunkBytes))
	b.same(
		"memory used again, and new",
		b.read(part(r, 4, 1).Address, 4*gpu.ChunkBytes),
		make([]byte, 4*gpu.ChunkBytes),
	)
	first, second := noise(2, 2*gpu.ChunkBytes), noise(3, 4*gpu.ChunkBytes)
	b.write(part(r, 1, 1).Address, first)
	b.write(part(r, 4, 1).Address, second)
	b.rest()
	if keeper.Kept() != 2*gpu.ChunkBytes || keeper.Gathered(part(r, 4, 4)) {
		t.Errorf("%d bytes are kept beside what is used", keeper.Kept())
	}
	b.must(keeper.Gather(part(r, 4, 4)))
	if !keeper.Gathered(part(r, 4, 4)) {
		t.Error("what was gathered is in pieces")
	}
	b.must(m.Unmap(part(r, 2, 1)))
	b.must(keeper.Compact())
	if keeper.Kept() != 0 {
		t.Errorf("%d bytes are kept after compacting", keeper.Kept())
	}
	b.same("what was moved", b.read(part(r, 1, 1).Address, gpu.ChunkBytes), first[:gpu.ChunkBytes])
	b.same("what was gathered", b.read(part(r, 4, 1).Address, 4*gpu.ChunkBytes), second)
	b.must(m.Unmap(part(r, 1, 1)))
	b.must(m.Unmap(part(r, 4, 4)))
	b.rest()
	if keeper.Kept() != 0 {
		t.Errorf("%d bytes are kept in the end", keeper.Kept())
	}
	now, _ = m.Usage()
	b.free("in the end", now, free)
}

// testKeptAtWork: memory comes and goes while a stream waits for a word that is written after that.
func testKeptAtWork(_ *testing.T, b *bench) {
	m := b.context.Memory()
	word := b.alloc(16)
	waiting, writing := b.stream(), b.stream()
	b.submit(
		waiting,
		gpu.MemoryOps{Ops: []gpu.MemoryOp{{Wait: true, Until: gpu.UntilEqual, Bytes: 8, Address: word, Value: 1}}},
	)
	r := gpu.Range{Address: b.next, Bytes: 3 * gpu.ChunkBytes}
	for i := range uint64(3) {
		b.must(m.Map(part(r, i, 2-i%2)))
		b.write(part(r, i, 1).Address, noise(i, gpu.ChunkBytes))
		b.must(m.Unmap(part(r, i, 2-i%2)))
	}
	b.must(m.Map(r))
	b.same("memory used again", b.read(r.Address, int(r.Bytes)), make([]byte, r.Bytes))
	b.want("work that waits", waiting.Query(), abi.NotReady)
	b.submit(writing, gpu.MemoryOps{Ops: []gpu.MemoryOp{{Bytes: 8, Address: word, Value: 1}}})
	b.must(waiting.Synchronize())
	b.must(writing.Synchronize())
	b.must(m.Unmap(r))
	b.rest()
}
