// Package watchdog is a root process that freezes a tree and runs CRIU to dump it. It carries out
// phosd's orders. If phosd dies, the watchdog undoes everything: it ends CRIU, resumes the
// processes, and removes their cgroup. It does not depend on images and GPUs.
//
// If the watchdog itself is killed, phosd undoes the same by itself at once. If both are killed,
// the next phosd calls Sweep.
//
// Most of it is tested by package criu, with a real CRIU, and by tests/crash. Read order.go first,
// then serve.go.
package watchdog
