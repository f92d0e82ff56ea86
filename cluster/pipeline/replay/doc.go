// Package replay runs a plan's life under a trace of failures, in virtual time.
//
// Two ways. By throughput (throughput.go): a measured throughput for each number of nodes and a
// constant pause, with the very rules of the simulation behind the published evaluation, in whole
// milliseconds. By planning (planned.go): every event is answered by package recover, with what
// detecting, planning, copying and the lost iteration cost.
//
// Traces (trace.go) are read from CSV or made up by seed.
//
// Read trace.go first.
package replay
