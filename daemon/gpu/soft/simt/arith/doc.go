// Package arith is what PTX operations mean for one lane: pure functions from register bits to
// register bits.
//
// Lookup picks the function for an instruction. Operands are the registers' bits, zero extended; a
// result's bits above its type are cut by whoever stores it. Rounding is exact: a result is
// computed as a float64 rounded to odd, which keeps enough to round once more in any direction
// (round.go), or with its error term (double.go).
//
// The package knows no warps and no memory.
package arith
