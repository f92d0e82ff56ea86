// Package procgroup is a cgroup for processes that are limited together, and killed together.
//
// The cgroup is one of version 2: only that version starts a process inside a cgroup, and kills all
// that is in one at once. A limit needs a controller. Where a controller belongs to a hierarchy of
// version 1, the group has a second cgroup there, which counts and limits, and nothing else.
//
// The package starts no process and decides nothing. Read group.go first.
package procgroup
