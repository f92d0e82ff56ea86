package space

import "github.com/phos-gpu/phos/daemon/gpu"

// The windows of the 64-bit generic address space through which a thread sees its block's shared
// memory, its own local memory and its launch's parameters. Programs do not get memory this low
// from their system, and device windows and the arena lie far above.
const (
	SharedBase  = 0x10_0000_0000
	LocalBase   = 0x11_0000_0000
	ParamBase   = 0x12_0000_0000
	CodeBase    = 0x13_0000_0000 // addresses of functions: nothing to load, only to call
	WindowBytes = 0x1_0000_0000
	windowsEnd  = CodeBase + WindowBytes
)

func overlapsReserved(r gpu.Range) bool {
	return overlap(r, gpu.Range{Address: SharedBase, Bytes: windowsEnd - SharedBase})
}
