// Package worker is the process that serves one program: it finishes the handshake, holds the
// session and the GPU backend, and runs the program's calls from the ring.
//
// A worker runs as the program's user without further privileges. Once it runs, it needs phosd only
// to open files of the program's memory that it may not open itself (package borrower). It exits
// when the program exits (its pidfd says so) or calls exec (the cookie in the program's memory is
// gone). A fault of the worker, a panic included, ends only this one session.
//
// Lock order: checkpointing, then the session's locks; tracing.mu, then the session's locks. The
// mutexes of events, restoreState, helpThrottle and refusals are leaves.
//
// Read Run first.
package worker
