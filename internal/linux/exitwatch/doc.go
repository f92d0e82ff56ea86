// Package exitwatch hears of the end of processes before a pidfd tells of it.
//
// A pidfd is ready when a process is gone altogether. Before that the kernel takes back its memory,
// which takes a second for every few GiB, and all that while a worker would hold a GPU's memory for
// nobody. Since Linux 6.16 the tracepoint sched_process_exit comes first, and says which thread was
// the last: a program in the kernel tells of those processes that are watched. Kernels before tell
// no earlier than pidfds do, and Open refuses there; so it does where programs may not be loaded.
// Nobody depends on it: whoever watches here has a pidfd besides.
//
// Nothing is pinned; it ends with its process. Read Watch.
package exitwatch
