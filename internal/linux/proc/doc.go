// Package proc identifies processes and reads what /proc says about them.
//
// A pid is not enough to identify a process, because the kernel reuses pids. An Identity (pid and
// start time) names one process for as long as the machine runs; a Handle (a pidfd) watches one and
// signals exactly that one. Stat, Status, Mapping and Descriptor are the parsed files of
// /proc/PID; Tree lists a process and its descendants. The package judges nothing: what a
// checkpoint cannot save is decided in criu/inspect.
//
// A process may end while it is read. The error then is fs.ErrNotExist, ESRCH or ErrGone; Gone
// tells these from all others. Unknown tells errors that say nothing about the process, for example
// because this process has no free file descriptor.
//
// Read identity.go first.
package proc
