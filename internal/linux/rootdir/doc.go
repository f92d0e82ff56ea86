// Package rootdir accesses files below the root directory of another process, which may be in a
// container. A path like /proc/PID/root/a/b does not: the kernel follows an absolute link in it
// from the root of the process that opens it, and the pid may belong to another process by then.
// Here the root is a descriptor, and every path is resolved below it (openat2, RESOLVE_IN_ROOT).
// Start with root.go.
package rootdir
