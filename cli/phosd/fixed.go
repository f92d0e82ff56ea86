package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// fixedVariable tells a worker to disable address space randomization. The addresses of variables
// in device code depend on where the kernel maps the GPU driver, and a restored program needs them
// unchanged.
const fixedVariable = "PHOS_FIXED_ADDRESSES"

// noRandomAddresses is ADDR_NO_RANDOMIZE of personality(2); unchanged queries the personality.
const (
	noRandomAddresses = 0x0040000
	unchanged         = 0xffffffff
)

// fixAddresses executes this program again without address space randomization, if fixedVariable is
// set. Where that is forbidden, the worker goes on: a restore reports which variable has moved.
func fixAddresses() {
	if _, ok := os.LookupEnv(fixedVariable); !ok {
		return
	}
	_ = os.Unsetenv(fixedVariable)
	runtime.LockOSThread() // the personality is per thread
	defer runtime.UnlockOSThread()
	now, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, unchanged, 0, 0)
	if errno != 0 || now&noRandomAddresses != 0 {
		return
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, now|noRandomAddresses, 0, 0); errno == 0 {
		_ = unix.Exec(proc.OwnExecutable, os.Args, os.Environ())
	}
}
