// Package devices is phosd's view of the GPUs: what they are, how much of their memory programs
// hold (daemon/gpu/ledger), what NVIDIA's driver reports about them (package inventory), and which
// of them are lost. It answers --status and the queries of libphos.so, and marks the programs on a
// lost GPU as failed.
//
// Package guard keeps other processes from opening the GPUs.
//
// Tested by daemon/phosd and tests/script. Read Devices.
package devices
