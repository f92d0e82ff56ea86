// Package process says which process is meant, and when it is gone. A pid alone says neither: numbers are used
// again. An Identity (pid and start time) names a process for as long as the machine runs; a Handle (a pidfd) watches one. Both are
// asked what the kernel says of the process; a Mapping is a line of its address space.
package process
