package simt

import (
	"fmt"
	"runtime/debug"

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
	// Stack is the stack of the interpreter if the fault is its own; else it is nil.
	Stack []byte
}

// faultOf returns the fault for a panic while a kernel ran. A panic that is not a fault is an error
// of the interpreter: it ends the kernel, and the program learns that by a status.
func faultOf(failure any, kernel string) *Fault {
	if fault, ok := failure.(*Fault); ok {
		return fault
	}
	return &Fault{
		Kind: abi.LaunchFailed, Kernel: kernel, Stack: debug.Stack(),
		Detail: fmt.Sprintf("internal error of the software GPU: %v", failure),
	}
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
