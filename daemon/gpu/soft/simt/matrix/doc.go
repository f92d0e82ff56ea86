// Package matrix multiplies the small matrices that the 32 lanes of a warp hold together in their
// registers, as the instruction mma does. Sums are made in float64 and rounded once at the end,
// which is within what the ISA asks for: it leaves open the order of additions and their precision,
// as long as it is at least that of float32.
package matrix
