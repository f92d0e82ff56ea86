// Package repair finds and undoes what CRIU leaves in processes when it is killed while it works
// inside them.
//
// CRIU stops every thread of a process, overwrites a few bytes at the start of the program's code
// to make system calls, maps a parasite, blocks all signals and runs the parasite. A killed CRIU
// cannot undo this. A Snapshot taken in advance holds the original state, and Repair restores it. A
// running parasite notices that its connection is closed and returns to the program by itself;
// Inside reports whether that has happened.
//
// A snapshot is stored with the cgroup of the frozen tree, so that it outlives the process that
// took it (Store).
//
// The package freezes nothing: the caller keeps the processes frozen while they are captured and
// repaired. Read snapshot.go first.
package repair
