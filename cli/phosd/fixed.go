package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// fixedAddressesVariable tells a worker to have the same addresses as any other: where a GPU driver puts
// variables of a program's code comes from where the kernel puts the driver's own mappings, and a
// restored program needs them where they were.
const fixedAddressesVariable = "PHOS_FIXED_ADDRESSES"

// noRandomAddresses is ADDR_NO_RANDOMIZE of personality(2), and unchanged what asks for the present
// one.
const (
	noRandomAddresses = 0x0040000
	queryPersonality  = 0xffffffff
)

// fixAddresses starts this process again without random addresses, if it is told to and has them.
// Where that is forbidden, it goes on with them: a restore says which variable has moved.
func fixAddresses() {
	if _, told := os.LookupEnv(fixedAddressesVariable); !told {
		return
	}
	_ = os.Unsetenv(fixedAddressesVariable)
	runtime.LockOSThread() // the thread that has it is the one that calls exec
	defer runtime.UnlockOSThread()
	now, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, queryPersonality, 0, 0)
	if errno != 0 || now&noRandomAddresses != 0 {
		return
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, now|noRandomAddresses, 0, 0); errno == 0 {
		_ = unix.Exec("/proc/self/exe", os.Args, os.Environ())
	}
}
