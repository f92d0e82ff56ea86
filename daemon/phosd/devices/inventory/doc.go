// Package inventory is what NVIDIA's management library (NVML) says of the real GPUs of a machine:
// what they are, how they do, who uses them, and what went wrong with them (Xid events).
//
// phosd does not ask NVML itself. The library keeps /dev/nvidiactl open for as long as it is in
// use, runs the driver's code in the process that asks, and ends that process when a name is
// missing in an old driver. So phosd starts itself once more in the role "inventory" (Serve, over a
// Source such as package inventory/nvml), which answers questions and tells of events, a line of
// JSON each; Watch is phosd's end of it, and starts another when one ends. Refusals says what of an
// inventory keeps phosd from serving its GPUs.
//
// It knows nothing of sessions and opens no CUDA: what can be computed with, package daemon/gpu
// says.
//
// Read Inventory, then serve.go and watch.go.
package inventory
