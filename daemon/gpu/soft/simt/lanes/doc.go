// Package lanes holds the loops over the 32 lanes of a warp for the operations that programs spend
// their time in.
//
// Everything here is an optimisation: package arith has the meaning of every operation, one lane at
// a time, and the tests compare the two. The Find functions return nil for what has no loop of its
// own.
package lanes
