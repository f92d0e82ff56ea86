// Package criu is the CPU half of a checkpoint: it implements ckpt.CPU with CRIU, which it drives
// through go-criu's messages. It saves and restores processes, and does not depend on GPUs, images
// and chunks.
//
// A dump: package inspect reads the state of the tree and finds obstacles. A watchdog (package
// watchdog) freezes the tree (package freezer) and runs CRIU (package runner) with the rights of
// the tree's owner. If phosd dies, the watchdog undoes everything. A restore: a restorer (package
// restorer) runs CRIU, becomes the tree's parent, and stays.
//
// The directory of images holds, beside CRIU's files, a record of how the tree was dumped, because
// a restore needs the same options.
//
// A tree may be in a container. CRIU then enters the container's namespaces but loads its libraries
// from the host. A clone gets its own pid and mount namespace and its own shared memory. Files that
// clones share are not restored (sharing.go).
//
// Locks: frozen.mu is held while prestarts.mu is taken. All others are leaves. Read cpu.go
// first.
package criu
