// Package freezer freezes a process tree, all threads at once, in its own cgroup (version 2). The
// processes are moved into a child of the cgroup of their root, and moved back when they are
// thawed.
//
// It does not depend on CRIU. A process that freezes a tree may be killed before it thaws it:
// another one must look after the tree then. The watchdog freezes, and phosd looks after it.
//
// Read freeze.go first.
package freezer
