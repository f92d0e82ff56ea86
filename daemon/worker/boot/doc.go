// Package boot is how phosd starts a worker: the configuration, the inherited file descriptors, and
// the messages with which a standby worker gets its session. phosd (daemon/phosd/sessions) writes
// them, the worker (daemon/worker) reads them.
package boot
