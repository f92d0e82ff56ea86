package space

import "github.com/phos-gpu/phos/daemon/gpu"

// Windows of the 64-bit generic address space: the block's shared memory, the thread's local memory
// and the launch's parameters. The system does not map program memory at such low addresses, and
// device windows and the arena are far above.
const (
	SharedBase  = 0x10_0000_0000
	LocalBase   = 0x11_0000_0000
	ParamBase   = 0x12_0000_0000
	CodeBase    = 0x13_0000_0000 // addresses of functions, which can be called but not loaded from
	WindowBytes = 0x1_0000_0000
	windowsEnd  = CodeBase + WindowBytes
)

func overlapsReserved(r gpu.Range) bool {
	return overlap(r, gpu.Range{Address: SharedBase, Bytes: windowsEnd - SharedBase})
}
