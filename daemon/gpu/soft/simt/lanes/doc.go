// Package lanes has loops over the 32 lanes of a warp for the operations in which programs spend
// most of their time.
//
// All loops are optimizations: package arith defines every operation on one lane, and the tests
// compare the two. The Find functions return nil if there is no loop.
package lanes
