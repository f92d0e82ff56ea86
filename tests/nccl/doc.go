// Package nccl tests NCCL itself, unmodified, on software GPUs: its collectives compute what a CPU
// computes, and its ranks are saved in the middle of them, killed and restored, as if nothing had
// been.
//
// The program is tests/workloads/nccl/ranks.c, which checks every result. Ranks on several hosts
// are tested by tests/cluster.
package nccl
