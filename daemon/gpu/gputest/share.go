package gputest

import (
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// testShared has two places with the same memory, of which one stands for another process.
func testShared(t *testing.T, b *bench) {
	m, shares := b.context.Memory().(gpu.Sharer)
	if !shares {
		t.Skip("this backend does not share memory")
	}
	here := gpu.Range{Address: b.load(noise(1, 2*gpu.ChunkBytes)) &^ (gpu.ChunkBytes - 1), Bytes: 2 * gpu.ChunkBytes}
	want := b.read(here.Address, int(here.Bytes))
	there := gpu.Range{Address: here.Address + 64*gpu.ChunkBytes, Bytes: here.Bytes}

	// A stream writes all the while, and loses nothing to the move.
	s, turns := b.stream(), uint32(500)
	counter := here.Address + 4096
	for turn := range turns {
		b.submit(s, gpu.Fill{Address: counter, Pattern: turn + 1, PatternBytes: 4, Columns: 1, Rows: 1},
			linear(device(counter+4), device(counter), 4))
	}
	var group sync.WaitGroup
	for range 3 { // at the same time, and again
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
	b.must(m.Adopt(there, file, offset))
	b.same("what was shared", b.read(here.Address, len(want)), want)
	b.same("what was adopted", b.read(there.Address, len(want)), want)

	b.write(there.Address+12345, []byte("from the other side"))
	b.same("a store there", b.read(here.Address+12345, 19), []byte("from the other side"))
	b.run(gpu.Fill{Address: here.Address, Pattern: 7, PatternBytes: 1, Columns: 100, Rows: 1})
	b.same("a store here", b.read(there.Address, 1), []byte{7})
	if tracker, marks := b.context.Memory().(gpu.Tracker); marks {
		tracker.ClearWritten(here)
		if written := tracker.Written(here); written[0] != 3 {
			t.Errorf("marks %b of shared chunks after clearing: others may write them at any time", written[0])
		}
	}
	b.want("adopt where memory is", m.Adopt(there, file, offset), abi.AlreadyMapped)
	b.want(
		"adopt more than there is",
		m.Adopt(gpu.Range{Address: there.End(), Bytes: there.Bytes}, file, 1<<50),
		abi.InvalidValue,
	)
	_, _, err = m.Share(gpu.Range{Address: there.End(), Bytes: gpu.ChunkBytes})
	b.want("share nothing", err, abi.NotMapped)
	testSharedLife(b, here, there)
}

// testSharedLife: memory lives as long as anybody has it. there is here, adopted.
func testSharedLife(b *bench, here, there gpu.Range) {
	m, _ := b.context.Memory().(gpu.Sharer)
	first := gpu.Range{Address: b.load(noise(2, gpu.ChunkBytes)), Bytes: gpu.ChunkBytes}
	second := gpu.Range{Address: first.Address + 64*gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
	freed, at, err := m.Share(first)
	b.must(err)
	b.must(m.Adopt(second, freed, at))
	_ = freed.Close()
	b.must(b.context.Memory().Unmap(first))
	b.rest()
	b.must(b.context.Memory().Map(first))
	b.same("what the exporter has given back", b.read(second.Address, gpu.ChunkBytes), noise(2, gpu.ChunkBytes))
	b.same("new memory in its place", b.read(first.Address, 200), make([]byte, 200))

	kept := b.read(there.Address, 200)
	memory := b.context.Memory()
	used, _ := memory.Usage()
	b.must(memory.Unmap(there))
	now, _ := memory.Usage()
	b.free("adopted memory given back", now, used)
	b.same("what the other has given back", b.read(here.Address, 200), kept)
	if _, keeps := memory.(gpu.Keeper); keeps {
		b.want("memory where adopted memory is kept", memory.Map(there), gpu.ErrKept)
	}
	b.rest()
	b.must(memory.Map(there))
	b.same("new memory in that place", b.read(there.Address, 200), make([]byte, 200))
	b.must(memory.Unmap(there))
}
