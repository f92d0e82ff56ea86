// Package sockmux is phosd's one socket. It asks the kernel which user connects, and dispatches
// connections by their first four bytes: the handshake of a program, an inquiry about the GPUs, a
// handoff of files, or gRPC. It limits how many connections one user may have.
//
// Package phosd serves the connections. Tested by daemon/phosd. Read Mux.
package sockmux
