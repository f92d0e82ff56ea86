package gputest

import (
	"encoding/binary"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// testWords lets one stream wait, by each comparison, for a value that another one writes.
func testWords(t *testing.T, b *bench) {
	word := b.alloc(16)
	for _, c := range []struct {
		until              gpu.Comparison
		bytes              uint8
		value, before, met uint64
	}{
		{gpu.UntilReached, 4, 7, 6, 7},
		{gpu.UntilReached, 4, 1, 0xffff_fff0, 5}, // counters wrap around
		{gpu.UntilReached, 8, 1 << 40, 1<<40 - 1, 1<<40 + 1},
		{gpu.UntilEqual, 4, 7, 8, 7},
		{gpu.UntilEqual, 8, 7<<32 | 1, 1, 7<<32 | 1},
		{gpu.UntilAnyBit, 4, 6, 9, 2},
		{gpu.UntilAnyBit, 8, 1 << 63, 1, 1 << 63},
		{gpu.UntilZeroBit, 4, 0xff, 0xffff_ff00, 0x7fff_ff00},
		{gpu.UntilZeroBit, 8, 0xffff_ffff, 0xffff_ffff << 32, 0xffff_fffe << 32},
	} {
		first, second := b.newStream(), b.newStream()
		step := gpu.MemoryOp{Bytes: c.bytes, Address: word, Value: c.before}
		b.submit(second, gpu.MemoryOps{Ops: []gpu.MemoryOp{step}})
		b.must(second.Synchronize())
		b.submit(first, gpu.MemoryOps{Ops: []gpu.MemoryOp{
			{Wait: true, Until: c.until, Bytes: c.bytes, Address: word, Value: c.value},
			{Bytes: 8, Address: word + 8, Value: c.met},
		}})
		b.want("a word that is not met yet", first.Query(), abi.NotReady)
		step.Value = c.met
		b.submit(second, gpu.MemoryOps{Ops: []gpu.MemoryOp{step}})
		b.must(first.Synchronize())
		b.same("what comes after the wait", b.read(word+8, 8), binary.LittleEndian.AppendUint64(nil, c.met))
	}
	s := b.newStream()
	for _, bad := range []gpu.MemoryOp{
		{Bytes: 2, Address: word},
		{Bytes: 8, Address: word + 4},
		{Bytes: 4, Address: word + 1},
		{Wait: true, Until: 4, Bytes: 4, Address: word},
	} {
		b.want("bad operation", s.Submit(gpu.MemoryOps{Ops: []gpu.MemoryOp{bad}}), abi.InvalidValue)
	}
}
