// Package worker is the process that serves one program: it finishes the handshake, holds the
// session and the GPU backend, and runs the program's calls from the ring.
//
// It runs as the program's user without any further privilege, and it does not need phosd once it
// runs, but for what it may not open itself of its program's memory (package borrower). It ends when
// the program does (by its pidfd) or when the program has replaced itself (the cookie in its memory
// is gone). Every fault in here, a panic included, costs this one program its session and nobody
// else anything.
//
// Read Run first.
package worker
