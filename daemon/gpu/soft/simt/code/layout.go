package code

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Linked is what the linker resolved: functions, addresses and shared variables.
type Linked struct {
	// Functions maps names to definitions.
	Functions map[string]*ptx.Func
	// Addresses of the variables in global and constant memory.
	Addresses map[*ptx.Var]uint64
	// FunctionAddresses holds the addresses of functions whose address is taken, or may be in a body
	// that is not read yet; AtAddress is the reverse.
	FunctionAddresses map[*ptx.Func]uint64
	AtAddress         map[uint64]*ptx.Func
	// Modules are the texts that define the functions.
	Modules map[*ptx.Func]*ptx.Module
	// Lock guards all of this and the texts. The caller of Lower holds it.
	Lock sync.Locker

	// checked is set once the functions are checked that are called by address; registers is the most
	// that one of them needs.
	checked   bool
	registers int32
	// Shared maps a shared variable of module scope to its definition; see sharedLayout.
	Shared map[*ptx.Var]*ptx.Var
	// Heap is set if the program has a device heap for malloc.
	Heap bool
}

// Refused is the error for an instruction that is not supported. It wraps Err, or abi.InvalidPTX if
// Err is nil.
type Refused struct {
	Function string
	Pos      ptx.Pos
	Text     string
	Err      error
}

func (r *Refused) Error() string {
	return fmt.Sprintf("line %d, column %d: %s: %s", r.Pos.Line, r.Pos.Column, r.Function, r.Text)
}

// Unwrap returns Err or abi.InvalidPTX.
func (r *Refused) Unwrap() error {
	if r.Err != nil {
		return r.Err
	}
	return abi.InvalidPTX
}

// errUndefined is the Err for a name without a definition.
var errUndefined = errors.Join(abi.InvalidPTX, gpu.ErrUndefined)

// function is a reachable function during lowering.
type function struct {
	ptx   *ptx.Func
	out   *Function
	calls []*function
	// base is the start of the registers of each class.
	base [ptx.Classes]uint32
	// Offsets of the parts of the frame.
	callParams, local uint32
	depth             uint64 // frame bytes of the function and its deepest chain of callees
	state             uint8  // of the depth-first search: 0 new, 1 open, 2 done
}

// recursionBytes is the most local memory for the frames of recursive calls, and of calls by
// address.
const recursionBytes = 64 << 10

const (
	// maxLocalBytes and maxStaticShared are limits of the hardware.
	maxLocalBytes   = 512 << 10
	maxStaticShared = 48 << 10
	// maxColumnBytes and maxPredicates limit the registers of a warp: 64 Ki registers of 64 bits, far
	// beyond what compilers produce.
	maxColumnBytes = 16 << 20
	maxPredicates  = 1 << 20

	frameAlign = 16
)

func alignUp(n, align uint64) uint64 { return (n + align - 1) / align * align }

// reach collects the functions that f can call, callees first.
func (l *lowering) reach(f *ptx.Func) (*function, error) {
	if seen := l.functions[f]; seen != nil {
		if seen.state == 1 {
			seen.out.Recursive = true
		}
		return seen, nil
	}
	fn := &function{ptx: f, out: &Function{Name: f.Name}, state: 1}
	l.functions[f] = fn
	if err := l.complete(f); err != nil {
		return nil, err
	}
	for i := range f.Insts {
		in := &f.Insts[i]
		if in.Op != ptx.OpCall {
			continue
		}
		if in.Call.Func == nil {
			l.indirect = true
			continue
		}
		callee := l.linked.Functions[in.Call.Func.Name]
		if callee == nil {
			if builtins[in.Call.Func.Name] == NoBuiltin {
				return nil, &Refused{
					Function: f.Name, Pos: in.Pos, Err: errUndefined,
					Text: "function '" + in.Call.Func.Name + "' is not defined",
				}
			}
			continue
		}
		if err := l.reachCall(fn, callee); err != nil {
			return nil, err
		}
	}
	fn.state = 2
	l.order = append(l.order, fn)
	return fn, nil
}

// reachCall reaches a callee and adds its depth to the caller's.
func (l *lowering) reachCall(caller *function, callee *ptx.Func) error {
	fn, err := l.reach(callee)
	if err != nil {
		return err
	}
	caller.calls = append(caller.calls, fn)
	return nil
}

// markRecursive marks the functions that can reach themselves: those in a cycle of the call graph,
// found as strongly connected components by Tarjan's algorithm.
func (l *lowering) markRecursive() {
	order, low := map[*function]int{}, map[*function]int{} // order counts from 1; 0 is not visited
	var open []*function                                   // visited, component not complete
	var visit func(*function)
	visit = func(fn *function) {
		order[fn] = len(order) + 1
		low[fn] = order[fn]
		open = append(open, fn)
		for _, callee := range fn.calls {
			if callee == fn {
				fn.out.Recursive = true
			}
			if order[callee] == 0 {
				visit(callee)
			}
			low[fn] = min(low[fn], low[callee])
		}
		if low[fn] < order[fn] {
			return
		}
		first := len(open) - 1
		for open[first] != fn {
			first--
		}
		for _, member := range open[first:] {
			member.out.Recursive = member.out.Recursive || len(open)-first > 1
			low[member] = math.MaxInt // later callers are not in the component
		}
		open = open[:first]
	}
	for _, fn := range l.order {
		if order[fn] == 0 {
			visit(fn)
		}
	}
}

// layoutFrames assigns a frame to every function.
func (l *lowering) layoutFrames() {
	l.markRecursive()
	for _, fn := range l.order {
		at := uint64(0)
		if !fn.ptx.Entry {
			at = alignUp(fn.ptx.ParamBytes, frameAlign)
		}
		fn.callParams = uint32(at)
		at = alignUp(at+fn.ptx.CallParamBytes, frameAlign)
		fn.local = uint32(at)
		at = alignUp(at+fn.ptx.LocalBytes, frameAlign)
		fn.out.FrameBytes = uint32(at)
	}
	for _, fn := range l.order { // callees come first
		for _, callee := range fn.calls {
			fn.depth = max(fn.depth, callee.depth)
		}
		fn.depth = min(fn.depth+uint64(fn.out.FrameBytes), 2*maxLocalBytes) // no overflow by many callees
	}
}

// layoutLocal sets the kernel's local memory.
func (l *lowering) layoutLocal(entry *function) {
	l.kernel.LocalBytes, l.kernel.LocalLimit = entry.depth, entry.depth
	recursive := slices.ContainsFunc(l.order, func(fn *function) bool { return fn.out.Recursive })
	switch {
	case l.indirect: // what callees need is not known yet
		l.kernel.LocalLimit = maxLocalBytes + recursionBytes
	case recursive:
		l.kernel.LocalLimit += recursionBytes
	}
}

// checkLimits returns an error for a kernel that needs more memory than the hardware has, or more
// than the interpreter allocates to a warp.
func (l *lowering) checkLimits(entry *function) error {
	refuse := func(format string, args ...any) error {
		return &Refused{Function: entry.ptx.Name, Pos: entry.ptx.Pos, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.kernel.LocalBytes > maxLocalBytes:
		return refuse("the kernel uses more than %d bytes of local memory per thread", maxLocalBytes)
	case l.kernel.StaticShared > maxStaticShared:
		return refuse("the kernel uses too much static shared memory (%d bytes, at most %d)",
			l.kernel.StaticShared, maxStaticShared)
	case l.exhausted:
		return refuse("the kernel and what it calls have too many registers and constants")
	}
	return nil
}

// layoutRegisters assigns a column to every register of every function.
func (l *lowering) layoutRegisters() {
	for _, fn := range l.order {
		count := fn.ptx.Registers
		narrow, wide := count[ptx.R16]+count[ptx.R32], count[ptx.R64]
		fn.base[ptx.R16] = l.newColumns(column32, narrow)
		fn.base[ptx.R32] = fn.base[ptx.R16] + uint32(count[ptx.R16])*l.stride(column32)
		fn.base[ptx.R64] = l.newColumns(column64, wide)
		fn.out.Narrow = Columns{fn.base[ptx.R16], l.stride(column32), narrow}
		fn.out.Wide = Columns{fn.base[ptx.R64], l.stride(column64), wide}
		fn.base[ptx.Pred] = uint32(l.predicates)
		fn.out.SavePredicates = [2]int32{l.predicates, l.predicates + int32(count[ptx.Pred])}
		l.addPredicates(count[ptx.Pred])
	}
}
