package gpu

import (
	"reflect"
	"testing"
)

// TestWindowsAreApart checks that windows overlap neither each other nor the rest of a program.
func TestWindowsAreApart(t *testing.T) {
	if heap := reflect.ValueOf(new([64]byte)).Pointer(); uint64(heap) > 1<<46+1<<40 {
		t.Errorf("Go heap at %#x, in the range of device windows", heap)
	}
	for count := 1; count <= 24; count++ {
		random := uint64(1 << 40) // 28 random bits of a page number, or 32
		if count <= 20 {
			random = 1 << 44
		}
		taken := []Range{
			{0, 1 << 46},                               // hints of Go's heap, of V8 and of allocators by PartitionAlloc
			{1 << 46, 1 << 40},                         // growth of such a heap
			{0x5555_5555_4000, random + 64<<30},        // programs, and brk behind them
			{0x6000_0000_0000, 16 << 40},               // the candidates of the pinned arena
			{0x7fff_ffff_f000 - 4<<40, 4<<40 + 0x1000}, // stacks, libraries, mmap
		}
		for ordinal := range count {
			w := DefaultWindow(ordinal, count)
			if w.Bytes < StandardWindowBytes || w.Bytes > MaxWindowBytes || w.Address%StandardWindowBytes != 0 {
				t.Errorf("GPU %d of %d: %#x+%#x", ordinal, count, w.Address, w.Bytes)
			}
			for _, other := range taken {
				if w.Address < other.End() && other.Address < w.End() {
					t.Errorf(
						"GPU %d of %d: %#x+%#x overlaps %#x+%#x",
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

// TestWindowsHoldSegments checks for space for an allocator with expandable segments: it reserves
// 9/8 of the device's memory twice per stream, and more for graphs. All device memory must have
// addresses in either half.
func TestWindowsHoldSegments(t *testing.T) {
	for _, c := range []struct {
		count  int
		memory uint64
		wanted uint64
	}{{1, 141 << 30, 16}, {4, 180 << 30, 12}, {8, 141 << 30, 8}, {8, 180 << 30, 6}, {10, 80 << 30, 12}, {16, 32 << 30, 12}} {
		lower, upper := SplitWindow(DefaultWindow(0, c.count))
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
	for _, bytes := range []uint64{64 << 30, StandardWindowBytes, MaxWindowBytes / 2, MaxWindowBytes} {
		whole := Range{Address: firstWindow, Bytes: bytes}
		lower, upper := SplitWindow(whole)
		if lower.Address != whole.Address || lower.End() != upper.Address || upper.End() != whole.End() {
			t.Errorf("%#x is split into %#x and %#x", whole, lower, upper)
		}
		// Images contain windows of this size, so their split must not change.
		if bytes <= StandardWindowBytes && lower.Bytes != bytes/2 {
			t.Errorf("window of %#x bytes: lower part has %#x", bytes, lower.Bytes)
		}
	}
}
