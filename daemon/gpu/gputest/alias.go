package gputest

import (
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testAlias(t *testing.T, b *bench) {
	m := b.context.Memory()
	aliaser, ok := m.(gpu.Aliaser)
	if !ok {
		t.Skip("this backend has no aliases")
	}
	data := noise(21, 3*gpu.ChunkBytes)
	home := gpu.Range{Address: b.load(data), Bytes: 3 * gpu.ChunkBytes}
	first := b.next + 64*gpu.ChunkBytes
	second := first + home.Bytes // adjacent, so that one access spans both
	part := gpu.Range{Address: home.Address, Bytes: 2 * gpu.ChunkBytes}
	b.must(aliaser.Alias(first, m, home, true))
	b.must(aliaser.Alias(second, m, part, false))
	b.same("read through the first alias", b.read(first, len(data)), data)
	b.same("read across both aliases", b.read(second-100, 200),
		append(data[len(data)-100:len(data):len(data)], data[:100]...))

	b.run(launch(b.kernel("store"), 1, 1, first+gpu.ChunkBytes, uint32(77)))
	b.same("memory after a store through an alias", b.read(home.Address+gpu.ChunkBytes, 4), words(77))
	b.same("read through the second alias", b.read(second+gpu.ChunkBytes, 4), words(77))
	b.write(home.Address, words(78))
	b.same("read through an alias after a direct store", b.read(second, 4), words(78))
	b.run(gpu.Fill{Address: first + 8, Pattern: 5, PatternBytes: 4, Columns: 1, Rows: 1})
	b.same("memory after a fill through an alias", b.read(home.Address+8, 4), words(5))

	b.want("alias over an alias", aliaser.Alias(first+gpu.ChunkBytes, m, part, true), abi.AlreadyMapped)
	b.want("alias over memory", aliaser.Alias(home.Address, m, part, true), abi.AlreadyMapped)
	b.want("map over an alias", m.Map(gpu.Range{Address: first, Bytes: gpu.ChunkBytes}), abi.AlreadyMapped)
	b.must(aliaser.Unalias(first))
	b.want("Unalias twice", aliaser.Unalias(first), abi.NotMapped)
	_, err := m.ReadAt(make([]byte, 4), int64(first))
	b.want("read a removed alias", err, abi.IllegalAddress)
	b.same("read through the remaining alias", b.read(second, 4), words(78))
	b.must(aliaser.Alias(second, m, part, true))
	b.write(second, words(79))
	b.same("memory after a store through an alias made writable", b.read(home.Address, 4), words(79))
}

// testAliasFault stores through a read-only alias.
func testAliasFault(t *testing.T, b *bench) {
	m := b.context.Memory()
	aliaser, ok := m.(gpu.Aliaser)
	if !ok {
		t.Skip("this backend has no aliases")
	}
	home := gpu.Range{Address: b.alloc(gpu.ChunkBytes), Bytes: gpu.ChunkBytes}
	second := b.next + 64*gpu.ChunkBytes
	b.must(aliaser.Alias(second, m, home, true))
	b.run(launch(b.kernel("store"), 1, 1, second, uint32(79)))
	b.must(aliaser.Alias(second, m, home, false))
	s := b.newStream()
	_ = s.Submit(launch(b.kernel("store"), 1, 1, second, uint32(1)))
	b.want("store through a read-only alias", s.Synchronize(), abi.IllegalAddress)
}

func testAliasDirty(t *testing.T, b *bench) {
	m := b.context.Memory()
	aliaser, ok := m.(gpu.Aliaser)
	tracker, tracks := m.(gpu.Tracker)
	if !ok || !tracks {
		t.Skip("this backend has no aliases or no dirty tracking")
	}
	home := gpu.Range{Address: b.alloc(3 * gpu.ChunkBytes), Bytes: 3 * gpu.ChunkBytes}
	at := b.next + 64*gpu.ChunkBytes
	b.must(aliaser.Alias(at, m, home, true))
	store := func(chunk uint64) {
		b.run(launch(b.kernel("store"), 1, 1, at+chunk*gpu.ChunkBytes, uint32(1)))
	}
	store(1)
	if got := formatBits(tracker.Dirty(home), 3); got != "010" {
		t.Errorf("dirty %s, want 010", got)
	}
	tracker.ClearDirty(home)
	store(2)
	if got := formatBits(tracker.Dirty(home), 3); got != "001" {
		t.Errorf("dirty after clearing: %s, want 001", got)
	}
	if got := formatBits(tracker.NeverWritten(home), 3); got != "100" {
		t.Errorf("never written %s, want 100", got)
	}
}
