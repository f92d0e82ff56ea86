package gputest

import (
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testAlias(t *testing.T, b *bench) {
	m := b.context.Memory()
	aliaser, offers := m.(gpu.Aliaser)
	if !offers {
		t.Skip("this backend does not show memory at further addresses")
	}
	data := noise(21, 3*gpu.ChunkBytes)
	home := gpu.Range{Address: b.load(data), Bytes: 3 * gpu.ChunkBytes}
	first := b.next + 64*gpu.ChunkBytes
	second := first + home.Bytes // right behind, so that one access crosses both
	part := gpu.Range{Address: home.Address, Bytes: 2 * gpu.ChunkBytes}
	b.must(aliaser.Alias(first, m, home, true))
	b.must(aliaser.Alias(second, m, part, false))
	b.same("by the first alias", b.read(first, len(data)), data)
	b.same("over both", b.read(second-100, 200), append(data[len(data)-100:len(data):len(data)], data[:100]...))

	b.run(launch(b.kernel("store"), 1, 1, first+gpu.ChunkBytes, uint32(77)))
	b.same("at home after a store by an alias", b.read(home.Address+gpu.ChunkBytes, 4), words(77))
	b.same("by the second alias", b.read(second+gpu.ChunkBytes, 4), words(77))
	b.write(home.Address, words(78))
	b.same("by an alias after a store at home", b.read(second, 4), words(78))
	b.run(gpu.Fill{Address: first + 8, Pattern: 5, PatternBytes: 4, Columns: 1, Rows: 1})
	b.same("at home after a fill", b.read(home.Address+8, 4), words(5))

	b.want("alias where memory is shown", aliaser.Alias(first+gpu.ChunkBytes, m, part, true), abi.AlreadyMapped)
	b.want("alias where memory lies", aliaser.Alias(home.Address, m, part, true), abi.AlreadyMapped)
	b.want("memory where memory is shown", m.Map(gpu.Range{Address: first, Bytes: gpu.ChunkBytes}), abi.AlreadyMapped)
	b.must(aliaser.Unalias(first))
	b.want("unalias twice", aliaser.Unalias(first), abi.NotMapped)
	_, err := m.ReadAt(make([]byte, 4), int64(first))
	b.want("read where nothing is shown any more", err, abi.IllegalAddress)
	b.same("by the alias that is left", b.read(second, 4), words(78))
	b.must(aliaser.Alias(second, m, part, true))
	b.write(second, words(79))
	b.same("at home after the alias became writable", b.read(home.Address, 4), words(79))
}

// testAliasFault ends with a store where only loads are allowed.
func testAliasFault(t *testing.T, b *bench) {
	m := b.context.Memory()
	aliaser, offers := m.(gpu.Aliaser)
	if !offers {
		t.Skip("this backend does not show memory at further addresses")
	}
	home := gpu.Range{Address: b.alloc(gpu.ChunkBytes), Bytes: gpu.ChunkBytes}
	second := b.next + 64*gpu.ChunkBytes
	b.must(aliaser.Alias(second, m, home, true))
	b.run(launch(b.kernel("store"), 1, 1, second, uint32(79)))
	b.must(aliaser.Alias(second, m, home, false))
	s := b.stream()
	_ = s.Submit(launch(b.kernel("store"), 1, 1, second, uint32(1)))
	b.want("store by an alias for reading", s.Synchronize(), abi.IllegalAddress)
}

func testAliasMarks(t *testing.T, b *bench) {
	m := b.context.Memory()
	aliaser, offers := m.(gpu.Aliaser)
	tracker, marks := m.(gpu.Tracker)
	if !offers || !marks {
		t.Skip("this backend does not show memory at further addresses, or does not mark it")
	}
	home := gpu.Range{Address: b.alloc(3 * gpu.ChunkBytes), Bytes: 3 * gpu.ChunkBytes}
	at := b.next + 64*gpu.ChunkBytes
	b.must(aliaser.Alias(at, m, home, true))
	store := func(chunk uint64) {
		b.run(launch(b.kernel("store"), 1, 1, at+chunk*gpu.ChunkBytes, uint32(1)))
	}
	store(1)
	if got := marked(tracker.Written(home), 3); got != "010" {
		t.Errorf("written %s, want 010", got)
	}
	tracker.ClearWritten(home)
	store(2)
	if got := marked(tracker.Written(home), 3); got != "001" {
		t.Errorf("written after the marks were cleared: %s, want 001", got)
	}
	if got := marked(tracker.Fresh(home), 3); got != "100" {
		t.Errorf("fresh %s, want 100", got)
	}
}
