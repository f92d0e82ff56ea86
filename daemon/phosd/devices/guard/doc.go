// Package guard keeps processes that are not phosd's from opening NVIDIA's devices: [gpus]
// exclusive.
//
// A small program in the kernel, attached to the topmost cgroup (version 2), is asked at every open
// of a device. It lets those in that are in phosd's own cgroup, the room, and says EPERM to all
// others, root's processes among them. The kernel asks the programs of all cgroups above a process,
// and each must agree: those of systemd and of container runtimes stay, and count as before.
//
// Nothing of it is pinned: it ends with phosd, however that ends, and GPUs are then open as they
// were. Workers that outlive phosd stay in the room, which Sweep of the next phosd removes. What
// was open before stays open: Warnings names who has it.
//
// It is no protection from root, who may take it off, and knows no GPU backend.
//
// Read Guard, then program.go.
package guard
