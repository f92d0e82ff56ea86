// Package machine shows in a virtual machine what only a whole one can show: units and sessions of
// systemd, a reboot, a power cut, a second machine. Each test starts machines of its own, from the
// disk that scripts/vm.sh has made and without changing it; where there is no such disk, all are
// skipped. It compares with undisturbed runs as tests/checkpoint does.
//
// Read machine_test.go first.
package machine
