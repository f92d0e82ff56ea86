// Package machine tests in a virtual machine what needs a whole one: units and sessions of systemd,
// a reboot, a power cut, a second machine. Each test starts its own machines from the disk that
// scripts/vm.sh has built, without changing the disk. Without such a disk all tests are skipped.
// Results are compared with undisturbed runs, as in tests/checkpoint.
//
// Read machine_test.go first.
package machine
