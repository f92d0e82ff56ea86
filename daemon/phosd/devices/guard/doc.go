// Package guard is the device policy of [gpus] exclusive: it keeps processes that are not phosd's
// from opening NVIDIA's devices.
//
// A BPF program, attached to the root cgroup (version 2), runs at every open of a device. It allows
// processes in a cgroup of phosd's own and returns EPERM to all others, also to those of
// root. The kernel runs the programs of all cgroups above a process, and each must allow the open:
// those of systemd and of container runtimes stay in force.
//
// Nothing is pinned: the program is detached when phosd ends, even by SIGKILL, and GPUs can be
// opened as before. Workers that outlive phosd stay in the cgroup, which Sweep of the next phosd
// removes. A device that was open before stays open: Warnings names the processes.
//
// It does not protect from root, which may detach the program.
//
// Lock order: Guard.mu and holders.mu are never held together. Read Guard, then program.go.
package guard
