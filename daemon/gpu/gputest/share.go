package gputest

import (
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// testShared maps the same memory at two places; the second one stands for another process.
func testShared(t *testing.T, b *bench) {
	m, ok := b.context.Memory().(gpu.Sharer)
	if !ok {
		t.Skip("this backend does not share memory")
	}
	here := gpu.Range{Address: b.load(noise(1, 2*gpu.ChunkBytes)) &^ (gpu.ChunkBytes - 1), Bytes: 2 * gpu.ChunkBytes}
	want := b.read(here.Address, int(here.Bytes))
	there := gpu.Range{Address: here.Address + 64*gpu.ChunkBytes, Bytes: here.Bytes}

	// A stream writes during Share; no write may be lost.
	s, turns := b.newStream(), uint32(500)
	counter := here.Address + 4096
	for turn := range turns {
		b.submit(s, gpu.Fill{Address: counter, Pattern: turn + 1, PatternBytes: 4, Columns: 1, Rows: 1},
			linear(device(counter+4), device(counter), 4))
	}
	var group sync.WaitGroup
	for range 3 { // concurrent and repeated
		group.Go(func() {
			file, _, err := m.Share(here)
			if err != nil {
				t.Error(err)
				return
			}
			_ = file.Close()
		})
	}
	group.Wait()
	b.must(s.Synchronize())
	copy(want[4096:], words(turns, turns))
	file, offset, err := m.Share(here)
	b.must(err)
	defer file.Close()
	b.must(m.Import(there, file, offset))
	b.same("shared memory", b.read(here.Address, len(want)), want)
	b.same("imported memory", b.read(there.Address, len(want)), want)

	b.write(there.Address+12345, []byte("from the other side"))
	b.same("a store through the import", b.read(here.Address+12345, 19), []byte("from the other side"))
	b.run(gpu.Fill{Address: here.Address, Pattern: 7, PatternBytes: 1, Columns: 100, Rows: 1})
	b.same("a store through the original", b.read(there.Address, 1), []byte{7})
	if tracker, ok := b.context.Memory().(gpu.Tracker); ok {
		tracker.ClearDirty(here)
		if written := tracker.Dirty(here); written[0] != 3 {
			t.Errorf("got dirty bits %b of shared chunks after clearing, want 11: others may write them at any time", written[0])
		}
	}
	b.want("import over memory", m.Import(there, file, offset), abi.AlreadyMapped)
	b.want(
		"import beyond the file",
		m.Import(gpu.Range{Address: there.End(), Bytes: there.Bytes}, file, 1<<50),
		abi.InvalidValue,
	)
	_, _, err = m.Share(gpu.Range{Address: there.End(), Bytes: gpu.ChunkBytes})
	b.want("share unmapped memory", err, abi.NotMapped)
	testSharedLife(b, here, there)
}

// testSharedLife checks that memory lives until its last user unmaps it. there is here, imported.
func testSharedLife(b *bench, here, there gpu.Range) {
	m, _ := b.context.Memory().(gpu.Sharer)
	first := gpu.Range{Address: b.load(noise(2, gpu.ChunkBytes)), Bytes: gpu.ChunkBytes}
	second := gpu.Range{Address: first.Address + 64*gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
	freed, at, err := m.Share(first)
	b.must(err)
	b.must(m.Import(second, freed, at))
	_ = freed.Close()
	b.must(b.context.Memory().Unmap(first))
	b.reclaim()
	b.must(b.context.Memory().Map(first))
	b.same("import after the exporter unmapped", b.read(second.Address, gpu.ChunkBytes), noise(2, gpu.ChunkBytes))
	b.same("new memory at the exporter's range", b.read(first.Address, 200), make([]byte, 200))

	content := b.read(there.Address, 200)
	memory := b.context.Memory()
	used, _ := memory.Usage()
	b.must(memory.Unmap(there))
	now, _ := memory.Usage()
	b.free("imported memory unmapped", now, used)
	b.same("export after the importer unmapped", b.read(here.Address, 200), content)
	if _, ok := memory.(gpu.ReclaimableMemory); ok {
		b.want("map over unreclaimed imported memory", memory.Map(there), gpu.ErrNotReclaimed)
	}
	b.reclaim()
	b.must(memory.Map(there))
	b.same("new memory at the importer's range", b.read(there.Address, 200), make([]byte, 200))
	b.must(memory.Unmap(there))
}
