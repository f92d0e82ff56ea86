// Package freezer makes a process tree stand still, all its threads at once, by a cgroup (version
// 2) of its own. The processes are moved into a child of the cgroup where their root is, and moved
// back when they go on.
//
// It knows nothing of CRIU. Whoever freezes must be watched by somebody who thaws when it dies:
// package watchdog.
//
// Read freeze.go first.
package freezer
