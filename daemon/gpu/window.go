package gpu

// Nothing else of a program should lie in a window, mapped or not: what does is taken for memory of
// the device. Go puts its heap at random below 1<<46 and lets it grow upwards; V8 and other
// allocators that choose addresses stay below, too. The 1 TiB above is left to such heaps.
// Position-independent programs lie at 2/3 of all addresses, 0x5555_5555_4000, and at random above,
// by 1 TiB or, as the kernel is told, 16; their small allocations come behind them. What the kernel
// places comes down from 0x7fff_ffff_f000.
const (
	firstWindow   = 1<<46 + 1<<40
	belowPrograms = 0x5500_0000_0000
	// The pinned arena begins at 0x6000_0000_0000. What is here meets programs only where they lie in
	// so many places.
	abovePrograms = 0x5800_0000_0000
	belowArena    = 0x6000_0000_0000
)

const (
	// MostWindowBytes is the most that a window may have. Allocators that reserve more addresses than
	// the device has memory, for each stream anew, find room in it.
	MostWindowBytes = 4 << 40
	// EnoughWindowBytes is what each of many devices gets.
	EnoughWindowBytes = 1 << 40
)

// DefaultWindow is the range of device addresses of a GPU, one of so many, where nothing was
// negotiated: the widest with which all of them lie where programs never do. A session that was
// saved keeps the windows that it had, wherever they were.
func DefaultWindow(ordinal, count int) Range {
	bytes := uint64(MostWindowBytes)
	for bytes > EnoughWindowBytes && uint64(count)*bytes > belowPrograms-firstWindow {
		bytes /= 2
	}
	places := Windows(bytes)
	return places[ordinal%len(places)]
}

// Windows are the places that windows of a size may have, those first that are preferred.
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

// Split divides the window of a GPU: below, memory lies where the session says, above, the program
// reserves addresses and says itself what lies there. Who reserves takes more than is ever mapped,
// so that gets most of a window that is wide.
func Split(window Range) (heap, program Range) {
	lower := window.Bytes / 2
	if window.Bytes > EnoughWindowBytes {
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

// WindowOf is where the memory of one of a backend's devices lies.
func WindowOf(devices []DeviceInfo, ordinal int) Range {
	if w := devices[ordinal].Window; w != (Range{}) {
		return w
	}
	return DefaultWindow(ordinal, len(devices))
}
