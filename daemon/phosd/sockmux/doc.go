// Package sockmux is phosd's one socket: it makes it, asks the kernel who connects, and sorts
// connections by their first four bytes, which are the handshake of a program, its question about
// the GPUs, files handed over, or gRPC. It keeps any one user from taking all of it.
//
// It serves nobody itself: package daemon does. Read Door.
package sockmux
