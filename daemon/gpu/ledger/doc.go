// Package ledger accounts the memory of GPUs that several workers share.
//
// A ledger is one small file that phosd creates and every worker maps: a table of GPUs with their
// capacities, and for each pair of GPU and slot (one slot per worker) three words. There is no lock
// in it, because a worker may be killed at any instruction; see Reserve for why the sum never
// exceeds the capacity all the same. phosd clears the slot of a worker that has died.
package ledger
