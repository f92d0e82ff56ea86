// Command phosd is the daemon: root's process that owns the GPUs of a machine. The same executable,
// started by itself as "phosd worker", serves one program; roles.go lists its other roles.
//
// It wires the parts: only this package knows which GPU backends there are (gpus.go).
package main
