// Package e2e runs complete programs: the workloads of tests/workloads, which are unmodified CUDA
// programs that check themselves. Each runs under a phosd of the test on the software GPU. It also
// runs programs that fault, misbehave or are killed.
package e2e
