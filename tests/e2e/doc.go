// Package e2e runs real programs from start to end: the workloads of tests/workloads, unmodified
// CUDA programs that check themselves, each under a phosd of the test's own on the software GPU,
// and programs that fault, lie or are killed.
package e2e
