// Package replay simulates a plan under a trace of failures, in virtual time.
//
// There are two ways. By throughput (throughput.go): a measured throughput for each number of nodes
// and a constant pause, with exactly the rules of the simulation behind the published evaluation,
// in whole milliseconds. By planning (planned.go): package ways answers every event, at the cost of
// detecting, planning and copying. What pipelines without a loss have computed of an iteration
// counts.
//
// Traces (trace.go) are read from CSV or generated from a seed.
//
// Read trace.go first.
package replay
