// Package exitwatch reports the end of processes earlier than a pidfd does.
//
// A pidfd becomes ready when a process is completely gone. Before that the kernel frees its memory,
// which takes a second for every few GiB, and for this time a worker would hold GPU memory that is
// not used. Since Linux 6.16 the tracepoint sched_process_exit runs earlier and says which thread
// was the last: a BPF program reports the watched processes. Older kernels report no earlier than
// pidfds, and Open fails there. It also fails where BPF programs cannot be loaded. The package is
// an optimization: its users also watch a pidfd.
//
// Nothing is pinned; everything ends with the process. Read Watch.
package exitwatch
