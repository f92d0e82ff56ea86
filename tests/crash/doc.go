// Package crash checks what is left after a checkpoint or a restore fails: the program still runs,
// the image is usable, and no process or file is left behind. Each step fails or is cancelled;
// phosd, workers, CRIU and programs are killed; disks fill up; files of images are corrupted;
// processes hang.
//
// Real programs run under a phosd of the test, which is started again after each crash. All
// processes run in a cgroup of the test, so that leftovers can be found. With CRASH=full in the
// environment every step and many points in time are tried; without it, a sample that takes three
// minutes. Read fixture_test.go first.
package crash
