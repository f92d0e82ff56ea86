// Package phosd is phosd, root's daemon that owns the sessions, the workers and the GPUs of a
// machine. This package puts its parts together and answers requests:
//
//   - sockmux is the one unix socket, for programs and for pos_cli. A program's connection is
//     passed on to a worker (daemon/worker), which runs as the program's user; phosd takes no part
//     in later calls.
//   - devices knows the GPUs, and which are lost.
//   - sessions starts workers, watches them and removes what they leave. It adopts the workers of
//     the phosd before.
//   - checkpoints takes checkpoints and restores them, for requests and for policies.
//   - statedir holds the keys, metrics the numbers for Prometheus.
//
// The gRPC service (service.go, checkpoint.go, restore.go, images.go) translates requests
// (daemon/api) to these parts. Imports go one way: checkpoints -> sessions -> devices.
//
// No GPU backend is imported: cli/phosd wires it into the worker, and says which GPUs there are.
// Read Daemon, then service.go.
package phosd
