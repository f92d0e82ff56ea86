// Package arith defines PTX operations on one lane, as pure functions from register bits to
// register bits.
//
// Lookup returns the function for an instruction. Operands are the bits of registers,
// zero-extended. The caller truncates results to their type. Rounding is exact: a result is
// computed as a float64 rounded to odd, which can be rounded once more in any direction (round.go),
// or with its error term (double.go).
//
// The package does not know warps or memory.
package arith
