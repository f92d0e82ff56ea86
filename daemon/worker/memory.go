package worker

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/process"
	"github.com/phos-gpu/phos/hijack/abi"
)

// processMemory is the memory of a program; offsets are its addresses.
type processMemory struct {
	program process.Identity
}

// maxVector is the most that the kernel moves in one call.
const maxVector = 1 << 30

// ErrRefused means that the kernel does not let this process touch the program's memory.
var ErrRefused = fmt.Errorf("the program's memory may not be touched from outside, and no thread of it waits that could copy: %w", abi.NotPermitted)

// ReadAt copies from the program.
func (m processMemory) ReadAt(p []byte, address int64) (int, error) {
	return m.move(p, address, "read", unix.ProcessVMReadv)
}

// WriteAt copies into the program.
func (m processMemory) WriteAt(p []byte, address int64) (int, error) {
	return m.move(p, address, "write", unix.ProcessVMWritev)
}

type vectorCall func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

func (m processMemory) move(p []byte, address int64, what string, call vectorCall) (int, error) {
	moved := 0
	for moved < len(p) {
		part := p[moved:min(len(p), moved+maxVector)]
		local := []unix.Iovec{{Base: &part[0]}}
		local[0].SetLen(len(part))
		remote := []unix.RemoteIovec{{Base: uintptr(address) + uintptr(moved), Len: len(part)}}
		got, err := call(m.program.PID, local, remote, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EPERM):
			return moved, fmt.Errorf("%s %d bytes at %#x: %w", what, len(p), address, ErrRefused)
		case err != nil || got <= 0:
			// Where the driver would end the program with a signal, it gets an error.
			return moved, fmt.Errorf("%s %d bytes of the program at %#x: %w (%w)", what, len(p), address, abi.InvalidValue, err)
		}
		moved += got
	}
	return moved, nil
}
