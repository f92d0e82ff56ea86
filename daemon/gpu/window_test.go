package gpu

import (
	"reflect"
	"testing"
)

// TestWindowsAreApart: no two windows meet, and none meets what programs have elsewhere.
func TestWindowsAreApart(t *testing.T) {
	const devices = 24
	taken := []Range{
		{0, 1 << 46},                               // hints of Go's heap, of V8 and of allocators by PartitionAlloc
		{1 << 46, 1 << 40},                         // where such a heap grows to
		{0x5555_5555_4000, 1<<40 + 64<<30},         // programs, and brk behind them
		{0x6000_0000_0000, 16 << 40},               // the candidates of the pinned arena
		{0x7fff_ffff_f000 - 4<<40, 4<<40 + 0x1000}, // stacks, libraries, mmap
	}
	if heap := reflect.ValueOf(new([64]byte)).Pointer(); uint64(heap) > 1<<46+1<<40 {
		t.Errorf("Go has its heap at %#x, where device memory may lie", heap)
	}
	for ordinal := range devices {
		w := DefaultWindow(ordinal)
		if w.Bytes != WindowBytes || w.Address%WindowBytes != 0 {
			t.Errorf("GPU %d: %#x+%#x", ordinal, w.Address, w.Bytes)
		}
		for _, other := range taken {
			if w.Address < other.End() && other.Address < w.End() {
				t.Errorf("GPU %d: %#x+%#x meets %#x+%#x", ordinal, w.Address, w.Bytes, other.Address, other.Bytes)
			}
		}
		taken = append(taken, w)
	}
}
