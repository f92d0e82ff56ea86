package gpu

import (
	"reflect"
	"testing"
)

// TestWindowsAreApart: no two windows meet, and none meets what programs have elsewhere.
func TestWindowsAreApart(t *testing.T) {
	if heap := reflect.ValueOf(new([64]byte)).Pointer(); uint64(heap) > 1<<46+1<<40 {
		t.Errorf("Go has its heap at %#x, where device memory may lie", heap)
	}
	for count := 1; count <= 24; count++ {
		random := uint64(1 << 40) // of 28 bits of pages, or of 32
		if count <= 20 {
			random = 1 << 44
		}
		taken := []Range{
			{0, 1 << 46},                               // hints of Go's heap, of V8 and of allocators by PartitionAlloc
			{1 << 46, 1 << 40},                         // where such a heap grows to
			{0x5555_5555_4000, random + 64<<30},        // programs, and brk behind them
			{0x6000_0000_0000, 16 << 40},               // the candidates of the pinned arena
			{0x7fff_ffff_f000 - 4<<40, 4<<40 + 0x1000}, // stacks, libraries, mmap
		}
		for ordinal := range count {
			w := DefaultWindow(ordinal, count)
			if w.Bytes < EnoughWindowBytes || w.Bytes > MostWindowBytes || w.Address%EnoughWindowBytes != 0 {
				t.Errorf("GPU %d of %d: %#x+%#x", ordinal, count, w.Address, w.Bytes)
			}
			for _, other := range taken {
				if w.Address < other.End() && other.Address < w.End() {
					t.Errorf(
						"GPU %d of %d: %#x+%#x meets %#x+%#x",
						ordinal,
						count,
						w.Address,
						w.Bytes,
						other.Address,
						other.Bytes,
					)
				}
			}
			taken = append(taken, w)
		}
	}
}

// TestWindowsHoldSegments: an allocator with expandable segments reserves 9/8 of the device's
// memory for each stream, twice, and more for graphs; and all of the memory finds addresses both by
// itself and without.
func TestWindowsHoldSegments(t *testing.T) {
	for _, c := range []struct {
		count  int
		memory uint64
		wanted uint64
	}{{1, 141 << 30, 16}, {4, 180 << 30, 12}, {8, 141 << 30, 8}, {8, 180 << 30, 6}, {10, 80 << 30, 12}, {16, 32 << 30, 12}} {
		lower, upper := Split(DefaultWindow(0, c.count))
		if lower.Bytes < 2*c.memory || upper.Bytes < c.wanted*c.memory/8*9 {
			t.Errorf(
				"%d GPUs of %d GiB: %d GiB for memory, %d GiB to reserve",
				c.count,
				c.memory>>30,
				lower.Bytes>>30,
				upper.Bytes>>30,
			)
		}
	}
	for _, bytes := range []uint64{64 << 30, EnoughWindowBytes, MostWindowBytes / 2, MostWindowBytes} {
		whole := Range{Address: firstWindow, Bytes: bytes}
		lower, upper := Split(whole)
		if lower.Address != whole.Address || lower.End() != upper.Address || upper.End() != whole.End() {
			t.Errorf("%#x is split into %#x and %#x", whole, lower, upper)
		}
		// Windows of this size are in images: their halves stay what they were.
		if bytes <= EnoughWindowBytes && lower.Bytes != bytes/2 {
			t.Errorf("of %#x bytes, %#x are below", bytes, lower.Bytes)
		}
	}
}
