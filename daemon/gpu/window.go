package gpu

// A window must not contain other memory of a program, mapped or reserved: its addresses are taken
// for device memory. Go puts its heap at a random place below 1<<46 and grows it upwards; V8 and
// other allocators that choose addresses stay below, too. The 1 TiB above is left to such heaps.
// Position-independent programs lie at 2/3 of all addresses, 0x5555_5555_4000, plus a random offset
// of up to 1 TiB or, depending on a kernel setting, 16 TiB; their brk heap follows. mmap grows down
// from 0x7fff_ffff_f000.
const (
	firstWindow   = 1<<46 + 1<<40
	belowPrograms = 0x5500_0000_0000
	// The pinned arena begins at 0x6000_0000_0000. Windows here overlap programs only if the kernel
	// uses the larger random offset.
	abovePrograms = 0x5800_0000_0000
	belowArena    = 0x6000_0000_0000
)

const (
	// MaxWindowBytes is the maximum size of a window. Allocators that reserve more addresses than
	// the device has memory, once per stream, need this much.
	MaxWindowBytes = 4 << 40
	// StandardWindowBytes is the size of each window on machines with many devices.
	StandardWindowBytes = 1 << 40
)

// DefaultWindow returns the range of device addresses of a GPU, out of count GPUs, if none was
// negotiated. It is the widest window that keeps all of them apart from programs. A restored
// session keeps the windows that it had.
func DefaultWindow(ordinal, count int) Range {
	bytes := uint64(MaxWindowBytes)
	for bytes > StandardWindowBytes && uint64(count)*bytes > belowPrograms-firstWindow {
		bytes /= 2
	}
	places := Windows(bytes)
	return places[ordinal%len(places)]
}

// Windows returns the possible places of windows of a size, in order of preference.
func Windows(bytes uint64) (places []Range) {
	for _, r := range []Range{
		{Address: firstWindow, Bytes: belowPrograms - firstWindow}, {Address: abovePrograms, Bytes: belowArena - abovePrograms},
	} {
		for at := r.Address; at+bytes <= r.End(); at += bytes {
			places = append(places, Range{Address: at, Bytes: bytes})
		}
	}
	return places
}

// SplitWindow divides the window of a GPU. The session places memory in the lower part; the program
// reserves addresses in the upper part and chooses what to map there. Programs reserve more than
// they map, so the upper part gets most of a wide window.
func SplitWindow(window Range) (heap, program Range) {
	lower := window.Bytes / 2
	if window.Bytes > StandardWindowBytes {
		lower = window.Bytes / 4
	}
	lower &^= ChunkBytes - 1
	return Range{
			Address: window.Address,
			Bytes:   lower,
		}, Range{
			Address: window.Address + lower,
			Bytes:   window.Bytes - lower,
		}
}

// WindowOf returns the address range of a device's memory.
func WindowOf(devices []DeviceInfo, ordinal int) Range {
	if w := devices[ordinal].Window; w != (Range{}) {
		return w
	}
	return DefaultWindow(ordinal, len(devices))
}
