package lanes

import "unsafe"

// Load32 reads groups of 8 lanes whose addresses are consecutive words, or all the same, and
// returns the mask of the lanes it has served. An address plus offset is a distance from host;
// limit is how many words are there. All other lanes, whether misaligned, outside or merely
// scattered, are left for the caller.
func Load32(d *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32 {
	return load32(d, a, offset, limit, host)
}

// Store32 is the same for writing groups of consecutive words.
func Store32(v *V32, a *V64, offset, limit uint64, host unsafe.Pointer) uint32 {
	return store32(v, a, offset, limit, host)
}

// Where there is no faster way than one lane at a time, nothing is served.
var load32, store32 = noAccess, noAccess

func noAccess(*V32, *V64, uint64, uint64, unsafe.Pointer) uint32 { return 0 }
