package code

import (
	"fmt"

	"github.com/phos-gpu/phos/internal/ptx"
)

// lowering is the state of lowering one kernel.
type lowering struct {
	linked    *Linked
	complete  func(*ptx.Func) error
	kernel    *Kernel
	callee    *Callee // nil while the kernel itself is lowered
	indirect  bool    // there are calls by address
	text      Text
	block     Block
	functions map[*ptx.Func]*function
	order     []*function // callees first
	fn        *function   // the function in progress
	in        *ptx.Inst   // the instruction in progress

	// narrow and wide are where the next columns of 32 and of 64 bits begin. For the kernel itself
	// they are the same; see stride.
	narrow, wide uint32
	predicates   int32
	exhausted    bool // there was no room for all registers
	constants32  map[uint32]uint32
	constants64  map[uint64]uint32
	constPreds   map[bool]uint32
	specials     map[SpecialColumn]uint32 // the key's At is zero

	shared sharedLayout

	// patches are the instructions that wait for the start of a function.
	patches []patch
	// places maps instruction indices of the current function to indices of Insts.
	places []int32
}

// patch is an instruction whose Target becomes the entry of a function.
type patch struct {
	inst int32
	fn   *function
}

// Lower lowers an entry point to a Kernel. complete parses the body of a function that was only
// outlined; Lower calls it before it reads the body.
func Lower(entry *ptx.Func, linked *Linked, complete func(*ptx.Func) error) (*Kernel, error) {
	kernel := &Kernel{
		Name: entry.Name, ParamBytes: entry.ParamBytes, Params: entry.Params,
		MaxThreads: entry.MaxThreads, RequiredThreads: entry.RequiredThreads,
	}
	l := newLowering(linked, complete, kernel)
	l.shared = sharedLayout{definitions: linked.Shared, offsets: map[*ptx.Var]uint64{}, align: 1}
	main, err := l.reach(entry)
	if err != nil {
		return nil, err
	}
	l.layoutFrames()
	l.layoutLocal(main)
	kernel.Frame = l.newColumn(column32)
	l.layoutRegisters()
	l.layoutShared()
	if err := l.lowerAll(main); err != nil {
		return nil, err
	}
	kernel.Entry, kernel.Block = main.out.Entry, l.block
	if l.indirect {
		l.emit(Inst{Shape: Nop}) // never reached; see Own
		kernel.Own = uint32(len(l.text.Insts))
	}
	kernel.text.Store(&l.text)
	if l.indirect {
		return kernel, l.addCallees()
	}
	return kernel, nil
}

// newLowering returns the state to lower a part of a kernel.
func newLowering(linked *Linked, complete func(*ptx.Func) error, kernel *Kernel) *lowering {
	return &lowering{
		linked: linked, complete: complete, kernel: kernel,
		functions:   map[*ptx.Func]*function{},
		constants32: map[uint32]uint32{},
		constants64: map[uint64]uint32{},
		constPreds:  map[bool]uint32{},
		specials:    map[SpecialColumn]uint32{},
	}
}

// lowerAll lowers the functions that main reaches.
func (l *lowering) lowerAll(main *function) error {
	if err := l.checkLimits(main); err != nil {
		return err
	}
	if err := l.checkShared(); err != nil {
		return err
	}
	for _, fn := range l.order {
		l.kernel.Registers = max(l.kernel.Registers, pressure(fn.ptx))
		if err := l.lowerFunction(fn); err != nil {
			return err
		}
	}
	if err := l.checkLimits(main); err != nil { // for constants
		return err
	}
	for _, p := range l.patches {
		l.text.Insts[p.inst].Target = p.fn.out.Entry
	}
	l.block.RegisterBytes, l.block.Predicates = max(l.narrow, l.wide), l.predicates
	return nil
}

// lowerFunction lowers one function.
func (l *lowering) lowerFunction(fn *function) error {
	l.fn = fn
	fn.out.Entry = int32(len(l.text.Insts))
	l.places = make([]int32, len(fn.ptx.Insts)+1)
	first := len(l.text.Insts)
	for i := range fn.ptx.Insts {
		l.places[i] = int32(len(l.text.Insts))
		l.in = &fn.ptx.Insts[i]
		if err := l.lowerInstruction(l.in); err != nil {
			return err
		}
	}
	l.places[len(fn.ptx.Insts)] = int32(len(l.text.Insts))
	l.in = &ptx.Inst{Op: ptx.OpRet, Guard: ptx.Guard{Reg: -1}}
	l.emit(Inst{Shape: Return}) // the end of the body returns
	for i := first; i < len(l.text.Insts); i++ {
		l.resolve(&l.text.Insts[i])
	}
	return nil
}

// resolve translates the function's instruction indices into those of the kernel.
func (l *lowering) resolve(in *Inst) {
	switch in.Shape {
	case Branch:
		in.Target = l.places[in.Target]
	case BranchIndexed:
		for i, target := range in.X.Targets {
			in.X.Targets[i] = l.places[target]
		}
	}
}

// refuse returns the error that the current instruction is not supported.
func (l *lowering) refuse(format string, args ...any) error {
	return &Refused{
		Function: l.fn.ptx.Name, Pos: l.in.Pos,
		Text: fmt.Sprintf("'%s': ", l.in.String()) + fmt.Sprintf(format, args...),
	}
}

// undefined returns the error that the current instruction uses an undefined name.
func (l *lowering) undefined(what, name string) error {
	return &Refused{
		Function: l.fn.ptx.Name, Pos: l.in.Pos, Err: errUndefined,
		Text: fmt.Sprintf("'%s': %s '%s' is not defined", l.in.String(), what, name),
	}
}

// emit appends an instruction with the guard of the current one.
func (l *lowering) emit(in Inst) {
	in.Guard = NoPredicate
	if g := l.in.Guard; g.Reg >= 0 {
		in.Guard = int32(l.fn.base[ptx.Pred]) + g.Reg
		in.GuardNegated = g.Negated
	}
	l.text.Insts = append(l.text.Insts, in)
	l.text.Sources = append(l.text.Sources, Source{Inst: l.in, Function: l.fn.ptx.Name})
}

// newColumn allocates a column for registers of so many bytes.
func (l *lowering) newColumn(bytes uint32) uint32 { return l.newColumns(bytes, 1) }

// newColumns allocates adjacent columns of so many bytes and returns the offset of the first.
func (l *lowering) newColumns(bytes uint32, count int) uint32 {
	next := &l.narrow
	if bytes == column64 {
		next = &l.wide
	}
	at := *next
	if need := uint64(l.stride(bytes)) * uint64(count); uint64(at)+need > maxColumnBytes {
		l.exhausted = true // and checkLimits refuses the kernel
		return 0
	}
	*next += l.stride(bytes) * uint32(count)
	if l.callee == nil {
		l.narrow, l.wide = *next, *next
	}
	return at
}

// stride returns the distance of adjacent columns of so many bytes. Callees share a part of the
// block, and lanes of a warp may be in different ones. So that a byte belongs to the same lane in
// all of them, columns of both sizes have fixed places there: they take turns.
func (l *lowering) stride(bytes uint32) uint32 {
	if l.callee != nil {
		return column32 + column64
	}
	return bytes
}

// addPredicates allocates adjacent predicates.
func (l *lowering) addPredicates(count int) {
	if int(l.predicates)+count > maxPredicates {
		l.exhausted = true
		return
	}
	l.predicates += int32(count)
}

// constant32 returns the column of a constant.
func (l *lowering) constant32(v uint32) uint32 {
	at, ok := l.constants32[v]
	if !ok {
		at = l.newColumn(column32)
		l.constants32[v] = at
		l.block.Constants32 = append(l.block.Constants32, Constant{at, uint64(v)})
	}
	return at
}

// constant64 returns the column of a 64-bit constant.
func (l *lowering) constant64(v uint64) uint32 {
	at, ok := l.constants64[v]
	if !ok {
		at = l.newColumn(column64)
		l.constants64[v] = at
		l.block.Constants64 = append(l.block.Constants64, Constant{at, v})
	}
	return at
}

// constantPredicate returns a predicate that is true in all lanes, or false in all.
func (l *lowering) constantPredicate(v bool) uint32 {
	at, ok := l.constPreds[v]
	if !ok {
		at = uint32(l.newPredicate())
		l.constPreds[v] = at
		value := uint64(0)
		if v {
			value = 0xffffffff
		}
		l.block.ConstantPredicates = append(l.block.ConstantPredicates, Constant{at, value})
	}
	return at
}

// newPredicate allocates a predicate.
func (l *lowering) newPredicate() int32 {
	at := l.predicates
	l.addPredicates(1)
	return at
}

// special returns the column of a special register that does not change while a warp runs.
func (l *lowering) special(s ptx.Special, wide bool) uint32 {
	key := SpecialColumn{Special: s, Wide: wide}
	at, ok := l.specials[key]
	if !ok {
		at = l.newColumn(column32)
		if wide {
			at = l.newColumn(column64)
		}
		l.specials[key] = at
		key.At = at
		l.block.Specials = append(l.block.Specials, key)
	}
	return at
}
