package gputest

import (
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// part returns some chunks of a range.
func part(r gpu.Range, from, count uint64) gpu.Range {
	return gpu.Range{Address: r.Address + from*gpu.ChunkBytes, Bytes: count * gpu.ChunkBytes}
}

// testReclaim checks that unreclaimed memory is inaccessible, and is reused in any pieces.
func testReclaim(t *testing.T, b *bench) {
	m := b.context.Memory()
	reclaimer, ok := m.(gpu.ReclaimableMemory)
	if !ok {
		t.Skip("this backend frees memory at once")
	}
	free, _ := m.Usage()
	r := gpu.Range{Address: b.next, Bytes: 8 * gpu.ChunkBytes}
	b.must(m.Map(part(r, 0, 6)))
	b.write(r.Address, noise(1, 6*gpu.ChunkBytes))
	b.must(m.Unmap(part(r, 0, 6)))
	if reclaimer.Reclaimable() != 6*gpu.ChunkBytes {
		t.Errorf("got %d bytes to reclaim, want %d", reclaimer.Reclaimable(), 6*gpu.ChunkBytes)
	}
	now, _ := m.Usage()
	b.free("unreclaimed memory", now, free)
	if _, err := m.ReadAt(make([]byte, 1), int64(r.Address)); err == nil {
		t.Error("read of freed memory succeeded")
	}
	b.want("MapWhole over unreclaimed memory", reclaimer.MapWhole(part(r, 5, 2)), gpu.ErrNotReclaimed)

	b.must(m.Map(part(r, 1, 2)))
	b.must(m.Map(part(r, 4, 4))) // partly new memory
	b.same("reused memory", b.read(part(r, 1, 1).Address, 2*gpu.ChunkBytes), make([]byte, 2*gpu.ChunkBytes))
	b.same(
		"reused and new memory",
		b.read(part(r, 4, 1).Address, 4*gpu.ChunkBytes),
		make([]byte, 4*gpu.ChunkBytes),
	)
	first, second := noise(2, 2*gpu.ChunkBytes), noise(3, 4*gpu.ChunkBytes)
	b.write(part(r, 1, 1).Address, first)
	b.write(part(r, 4, 1).Address, second)
	b.reclaim()
	if reclaimer.Reclaimable() != 2*gpu.ChunkBytes || reclaimer.Consolidated(part(r, 4, 4)) {
		t.Errorf("%d bytes to reclaim, or a range is one mapping already", reclaimer.Reclaimable())
	}
	b.must(reclaimer.Consolidate(part(r, 4, 4)))
	if !reclaimer.Consolidated(part(r, 4, 4)) {
		t.Error("range is not one mapping after Consolidate")
	}
	b.must(m.Unmap(part(r, 2, 1)))
	b.must(reclaimer.Compact())
	if reclaimer.Reclaimable() != 0 {
		t.Errorf("%d bytes to reclaim after Compact", reclaimer.Reclaimable())
	}
	b.same("moved memory", b.read(part(r, 1, 1).Address, gpu.ChunkBytes), first[:gpu.ChunkBytes])
	b.same("gathered memory", b.read(part(r, 4, 1).Address, 4*gpu.ChunkBytes), second)
	b.must(m.Unmap(part(r, 1, 1)))
	b.must(m.Unmap(part(r, 4, 4)))
	b.reclaim()
	if reclaimer.Reclaimable() != 0 {
		t.Errorf("%d bytes to reclaim in the end", reclaimer.Reclaimable())
	}
	now, _ = m.Usage()
	b.free("in the end", now, free)
}

// testReclaimWhileBusy maps and unmaps memory while a stream waits for a word that is written
// later.
func testReclaimWhileBusy(_ *testing.T, b *bench) {
	m := b.context.Memory()
	word := b.alloc(16)
	waiting, writing := b.newStream(), b.newStream()
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
	b.same("reused memory", b.read(r.Address, int(r.Bytes)), make([]byte, r.Bytes))
	b.want("blocked stream", waiting.Query(), abi.NotReady)
	b.submit(writing, gpu.MemoryOps{Ops: []gpu.MemoryOp{{Bytes: 8, Address: word, Value: 1}}})
	b.must(waiting.Synchronize())
	b.must(writing.Synchronize())
	b.must(m.Unmap(r))
	b.reclaim()
}
