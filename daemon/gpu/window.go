package gpu

// WindowBytes is the size of a device's window where nothing was negotiated, and the most that one may have.
const WindowBytes = 1 << 40

const (
	// Nothing else of a program should lie in a window, mapped or not: what does is taken for memory of the device. Go puts
	// its heap at random below 1<<46 and lets it grow upwards; V8 and other allocators that choose addresses stay below, too.
	// The 1 TiB above is left to such heaps.
	firstWindow = 1<<46 + 1<<40
	// Position-independent programs lie at 2/3 of all addresses, 0x5555_5555_4000, and at random up to 1 TiB above, their
	// small allocations behind them; so these windows are passed over. The pinned arena comes at 0x6000_0000_0000, and what
	// the kernel places comes down from 0x7fff_ffff_f000.
	windowsBelowPrograms = 20
	windowsPassedOver    = 3
)

// DefaultWindow is the range of device addresses of a GPU where nothing was negotiated. A session that was saved keeps the
// windows that it had, wherever they were.
func DefaultWindow(ordinal int) Range {
	n := uint64(ordinal)
	if n >= windowsBelowPrograms {
		n += windowsPassedOver
	}
	return Range{Address: firstWindow + n*WindowBytes, Bytes: WindowBytes}
}
