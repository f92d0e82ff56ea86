// Package standby keeps workers that wait for programs: processes that have done already what takes
// a worker's start long.
//
// A Pool starts them in the background, one at a time, hands out one that is ready, and ends them
// with phosd: none outlives the conversation that it has with it. One that ends by itself, since
// its memory is needed, is not started anew at once.
//
// What they are told is not known here: package daemon says it, package daemon/worker is at the
// other end. Read Pool.
package standby
