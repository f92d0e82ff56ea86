// Package crash proves that whatever goes wrong during a checkpoint or a restore leaves the program
// running, the image usable and nothing behind: each step fails or is cancelled, phosd, workers,
// CRIU and programs are killed there, disks fill up, files of images are damaged, and what should
// answer hangs.
//
// Real programs run under a phosd of the test's own, started again after each crash. Everything
// that a test starts is in a cgroup of its own, by which what is left behind is found. Every step
// and many moments are tried with CRASH=full in the environment; without it, as many as fit into
// three minutes. Read room_test.go first.
package crash
