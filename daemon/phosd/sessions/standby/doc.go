// Package standby keeps standby workers: idle processes that have already done the slow part of a
// worker's start.
//
// A Pool starts them in the background, one at a time, hands out one that is ready, and ends them
// with phosd: a standby worker exits when its socket to phosd closes. One that exits by itself, to
// free its memory, is not replaced at once.
//
// The messages are the caller's (daemon/worker/boot). Read Pool.
package standby
