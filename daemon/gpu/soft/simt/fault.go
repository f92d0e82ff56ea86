package simt

import (
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Fault describes an error of a kernel in as much detail as a debugger would.
type Fault struct {
	// Kind is the error code for the program: abi.IllegalAddress, abi.MisalignedAddress, abi.Assert,
	// ...
	Kind   abi.Result
	Kernel string
	// Instruction is the text of the instruction, reconstructed from the decoded form.
	Instruction string
	Pos         ptx.Pos
	// Address is the offending address of a memory fault.
	Address uint64
	Block   [3]uint32
	Thread  [3]uint32
	// Detail adds information that the fields do not have; it may be empty.
	Detail string
}

func (f *Fault) Error() string {
	text := fmt.Sprintf("kernel %s: %s at line %d: %s", f.Kernel, f.Instruction, f.Pos.Line, f.Kind)
	switch f.Kind {
	case abi.IllegalAddress, abi.MisalignedAddress, abi.InvalidAddressSpace:
		text += fmt.Sprintf(": address %#x", f.Address)
	}
	text += fmt.Sprintf(", block (%d,%d,%d) thread (%d,%d,%d)", f.Block[0], f.Block[1], f.Block[2],
		f.Thread[0], f.Thread[1], f.Thread[2])
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}

// Unwrap returns the driver's code.
func (f *Fault) Unwrap() error { return f.Kind }
