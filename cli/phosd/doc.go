// Command phosd is the daemon: the process that owns the GPUs of a machine, as root. It starts the
// same executable in other roles: "phosd worker" serves one program, and roles.go has the rest.
//
// Only this package selects the GPU backend (gpus.go).
package main
