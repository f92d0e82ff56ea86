// Package phosd is phosd: it owns the sessions, the workers and the GPUs of a machine.
//
// Programs and pos_cli come to one unix socket (daemon/phosd/sockmux). A program's connection is
// handed to a new worker process (daemon/worker) that runs as the program's user; from then on
// phosd is not needed for a call. It watches the worker, cleans up after it, answers requests
// (daemon/api), and, started again, adopts the workers that it finds (adopt.go).
//
// Checkpoints and restores are requests like others (checkpoint.go, restore.go): this package finds
// the sessions, package archive opens the image and says whose rights count, and package ckpt walks
// the steps. Those that nobody asks for come from policies.go, which goes by package policy. What
// became of a program's checkpoints stands in its session's record and outlives phosd. Package
// trees knows what was restored, and finds it again. A trace (tracing.go) is a file that is opened
// here, with the caller's rights, and written by the worker; its lines are described in
// daemon/worker/session/trace.
//
// It imports no GPU backend: cli/phosd wires those into the worker and tells this package what GPUs
// there are. Read Daemon, then start.go for the life of a session, then service.go.
package phosd
