package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// fixedAddressesVariable tells a worker to run without address randomisation. A GPU driver's
// addresses for variables of code depend on where the kernel puts the driver's mappings, and a
// restored program needs its variables at their old addresses.
const fixedAddressesVariable = "PHOS_FIXED_ADDRESSES"

// noRandomAddresses is ADDR_NO_RANDOMIZE of personality(2); queryPersonality asks for the current
// value.
const (
	noRandomAddresses = 0x0040000
	queryPersonality  = 0xffffffff
)

// fixAddresses executes this program again without address randomisation, if fixedAddressesVariable
// is set. If that is forbidden, the process goes on; a restore then reports variables that moved.
func fixAddresses() {
	if _, ok := os.LookupEnv(fixedAddressesVariable); !ok {
		return
	}
	_ = os.Unsetenv(fixedAddressesVariable)
	runtime.LockOSThread() // the personality belongs to the thread that calls exec
	defer runtime.UnlockOSThread()
	now, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, queryPersonality, 0, 0)
	if errno != 0 || now&noRandomAddresses != 0 {
		return
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, now|noRandomAddresses, 0, 0); errno == 0 {
		_ = unix.Exec("/proc/self/exe", os.Args, os.Environ())
	}
}
