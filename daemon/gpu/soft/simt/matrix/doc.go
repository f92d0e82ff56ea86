// Package matrix multiplies the small matrices that are distributed over the registers of a warp,
// for the instruction mma. Sums are computed in float64 and rounded once at the end. The ISA
// permits this: it leaves the order of additions and their precision open, as long as the precision
// is at least that of float32.
//
// Tested by the tests of package simt.
package matrix
