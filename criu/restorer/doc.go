// Package restorer is a root process that runs CRIU to restore a tree and stays the tree's parent.
// It waits for the tree's root and reports its exit status on request. It outlives phosd; the next
// phosd finds it by its socket. If the tree has its own pid namespace, the restorer is its pid 1.
//
// The tree is frozen until phosd commits the restore. If phosd dies before that, or does
// not commit within 15 minutes of the end of CRIU (commitTime), the restorer kills the tree and
// exits: a failed restore leaves nothing behind.
//
// Most of it is tested by package criu, with a real CRIU, and by tests/crash. Read order.go first,
// then serve.go.
//
// # Locking
//
// The locks of exitStatus and of the output are leaves: while one is held, no other is taken.
package restorer
