// Package daemon is phosd: it owns the sessions, the workers and the GPUs of a machine.
//
// One unix socket serves programs and pos_cli. A program's connection is handed to a new worker process
// (daemon/worker) that runs as the program's user; from then on phosd is not needed for a call. It watches the worker,
// cleans up after it, answers requests (daemon/rpc), and, started again, adopts the workers that it finds.
//
// It imports no GPU backend: cli/phosd wires those into the worker and tells this package what GPUs there are.
// Read Daemon, then start.go for the life of a session, then service.go.
package daemon
