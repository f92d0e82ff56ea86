package code

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/internal/ptx"
)

const (
	// minRegisters is the least number that compilers report for most kernels.
	minRegisters = 8
	// ownRegisters is what a compiler needs besides the values of a text: the stack pointer, and
	// temporaries of instructions that the hardware does not have.
	ownRegisters = 4
	// callRegisters is the least number of registers of a function with calls. The calling convention
	// reserves registers for arguments and for saved values.
	callRegisters = 24
	// maxExtensions limits the work for a text with very many loops and registers.
	maxExtensions = 1 << 26
)

// interval is the instructions from the first to the last at which a register holds a value.
type interval struct{ first, last int32 }

// pressure estimates how many 32-bit registers a compiler would allocate to a function. PTX has a
// register per value; this is the maximum of what is live at a time.
func pressure(f *ptx.Func) int32 {
	intervals, calls := intervalsOf(f)
	extendOverLoops(intervals, f)
	change := make([]int32, len(f.Insts)+1)
	for class := range intervals {
		words := int32(1)
		switch ptx.Class(class) {
		case ptx.Pred: // predicates have registers of their own
			continue
		case ptx.R64:
			words = 2
		}
		for _, x := range intervals[class] {
			if x.first < 0 {
				continue
			}
			// The last reader's destination may be the same register.
			change[x.first] += words
			change[max(x.last, x.first+1)] -= words
		}
	}
	live, most := int32(0), int32(0)
	for _, n := range change {
		live += n
		most = max(most, live)
	}
	most = max(most+ownRegisters, minRegisters)
	if calls {
		most = max(most, callRegisters)
	}
	return most
}

// intervalsOf returns the interval of every register in the order of the text, by class, and
// whether the function has calls. A register that is never used has the interval -1, -1.
func intervalsOf(f *ptx.Func) (intervals [ptx.Classes][]interval, calls bool) {
	for class := range intervals {
		intervals[class] = slices.Repeat([]interval{{-1, -1}}, f.Registers[class])
	}
	at := int32(0)
	note := func(r ptx.Reg) {
		if r.Index < 0 || int(r.Index) >= len(intervals[r.Class]) {
			return
		}
		x := &intervals[r.Class][r.Index]
		if x.first < 0 {
			x.first = at
		}
		x.last = at
	}
	operands := func(list []ptx.Operand) {
		for _, o := range list {
			if o.Kind == ptx.RegOperand {
				note(o.Reg)
			}
		}
	}
	for _, r := range f.ParamRegs {
		note(r)
	}
	for i := range f.Insts {
		in := &f.Insts[i]
		at = int32(i)
		operands(in.Src)
		operands(in.Dst)
		note(in.Addr.Reg)
		if in.From != nil {
			note(in.From.Reg)
		}
		if c := in.Call; c != nil {
			calls = calls || c.Func == nil || builtins[c.Func.Name] == NoBuiltin
			operands(c.Args)
			operands(c.Rets)
			note(c.Indirect)
		}
	}
	return intervals, calls
}

// extendOverLoops extends registers that are set before a loop and used in it to the loop's end:
// the next iteration needs them.
func extendOverLoops(intervals [ptx.Classes][]interval, f *ptx.Func) {
	var loops []interval
	for i := range f.Insts {
		in := &f.Insts[i]
		targets := in.Targets
		if in.Op == ptx.OpBra {
			targets = []int32{in.Target}
		} else if in.Op != ptx.OpBrx {
			continue
		}
		for _, target := range targets {
			if target <= int32(i) {
				loops = append(loops, interval{target, int32(i)})
			}
		}
	}
	// Inner loops end first, and what they extend may reach into outer ones.
	slices.SortFunc(loops, func(a, b interval) int { return cmp.Compare(a.last, b.last) })
	for class := range intervals {
		if ptx.Class(class) == ptx.Pred || len(loops)*len(intervals[class]) > maxExtensions {
			continue
		}
		for i := range intervals[class] {
			x := &intervals[class][i]
			// The first loop that may contain the last use.
			from, _ := slices.BinarySearchFunc(loops, x.last, func(l interval, last int32) int {
				return cmp.Compare(l.last, last)
			})
			for _, l := range loops[from:] {
				if x.first < l.first && x.last >= l.first && x.last < l.last {
					x.last = l.last
				}
			}
		}
	}
}
