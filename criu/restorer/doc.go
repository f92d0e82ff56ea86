// Package restorer is the process of root's that brings a tree back and stays its parent: it has
// CRIU restore it, waits for its root, and tells whoever asks how it ended. It outlives phosd; the
// next one finds it by its socket. In a pid namespace of the tree's own it is pid 1.
//
// Until phosd says that the restore is complete the tree stands still, and should phosd be gone
// before that, the keeper ends the tree and itself: a restore that fails leaves nothing.
//
// Read order.go first, then serve.go.
package restorer
