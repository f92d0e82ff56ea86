// Package ledger accounts for the memory of GPUs that several workers share.
//
// A ledger is one small file that phosd creates and every worker maps: a table of GPUs with their
// capacities, and three words for each pair of GPU and slot (one slot per worker). It has no lock
// between processes, because a worker may be killed at any instruction; reserve explains why the
// sum still never exceeds the capacity. phosd clears the slot of a dead worker.
package ledger
