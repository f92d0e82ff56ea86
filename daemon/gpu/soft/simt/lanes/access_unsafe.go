package lanes

import "unsafe"

// Load32 loads groups of 8 lanes whose addresses are consecutive words, or all the same. It returns
// the mask of the lanes that it has loaded. Address plus offset is a distance from host; limit is
// the number of words there. It leaves all other lanes to the caller: misaligned, out of bounds or
// scattered.
func Load32(d *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32 {
	return load32(d, a, offset, limit, host)
}

// Store32 is the same for stores to consecutive words.
func Store32(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32 {
	return store32(v, a, offset, limit, host)
}

// On a processor without vector loops no lane is served.
var load32, store32 = noAccess, noAccess

func noAccess(*V32, *V64, uint64, uint64, unsafe.Pointer) uint32 { return 0 }
