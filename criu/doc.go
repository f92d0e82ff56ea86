// Package criu is the CPU half of a checkpoint: it implements ckpt.CPU by CRIU, which it drives
// through go-criu's messages. It saves and restores processes, and knows nothing of GPUs, images
// and chunks.
//
// A dump: package survey looks at the tree and names what stands against saving it; a watchdog
// (package watchdog), which takes everything back should phosd die, freezes it (package freezer)
// and runs CRIU (package engine) with the rights of the tree's user. A restore: a keeper (package
// keeper) runs CRIU, becomes the tree's parent, and stays.
//
// The images' directory has, beside CRIU's files, a record of how the tree was dumped, because a
// restore must say the same.
//
// A tree may be in a container: CRIU then enters its namespaces, with its own libraries brought
// along, and restores it where the caller is. A clone has namespaces of pids and mounts, and shared
// memory, of its own. Files that clones share stay as they are (sharing.go).
//
// Read cpu.go first.
package criu
