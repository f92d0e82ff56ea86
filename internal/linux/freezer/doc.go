// Package freezer freezes a process tree, all threads at once, in its own cgroup (version 2). The
// processes are moved into a child of the cgroup of their root, and moved back when they are
// thawed.
//
// It does not depend on CRIU. A process that freezes a tree must be watched by another one that
// thaws the tree if it dies: package watchdog.
//
// Read freeze.go first.
package freezer
