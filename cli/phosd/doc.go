// Command phosd is the daemon: root's process that owns the GPUs of a machine. The same executable,
// started by itself as "phosd worker", is the process that serves one program.
//
// It wires: which GPU backends there are is decided here (gpus.go) and nowhere else.
package main
