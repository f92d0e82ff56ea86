// Package inventory is what NVIDIA's management library (NVML) reports about the real GPUs of a
// machine: models, state, processes, and errors (Xid events).
//
// phosd does not call NVML itself. The library keeps /dev/nvidiactl open while it is in use, runs
// the driver's code in the calling process, and ends that process if a symbol is missing in an old
// driver. So phosd starts a child process in the role "inventory" (Serve, over a Source such as
// package inventory/nvml). It answers queries and reports events, each as a line of JSON. Watch is
// phosd's end, and starts another child when one has exited. Refusals says which GPUs cannot be
// served.
//
// Lock order: Health.mu, Watch.mu and lineWriter.mu are never held together. Read Inventory, then
// serve.go and watch.go.
package inventory
