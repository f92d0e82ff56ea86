package code

import (
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/internal/ptx"
)

// register returns the place of a register.
func (l *lowering) register(r ptx.Reg) Ref {
	if r.Index < 0 {
		return Ref{Sink: true, Class: r.Class}
	}
	size := l.stride(column32)
	switch r.Class {
	case ptx.Pred:
		size = 1
	case ptx.R64:
		size = l.stride(column64)
	}
	return Ref{At: l.fn.base[r.Class] + uint32(r.Index)*size, Class: r.Class}
}

// destination is register, with a sink for a missing operand.
func (l *lowering) destination(in *ptx.Inst, i int) Ref {
	if i >= len(in.Dst) {
		return Ref{Sink: true}
	}
	return l.register(in.Dst[i].Reg)
}

// classOf returns the register class for values of a type.
func classOf(t ptx.Type) ptx.Class {
	switch t.Bits() {
	case 1:
		return ptx.Pred
	case 8, 16:
		return ptx.R16
	case 32:
		return ptx.R32
	}
	return ptx.R64
}

// source resolves an operand to a column or predicate. class is the class of constants.
func (l *lowering) source(o ptx.Operand, class ptx.Class) (Ref, error) {
	switch o.Kind {
	case ptx.RegOperand:
		ref := l.register(o.Reg)
		ref.Negated = o.Negated
		return ref, nil
	case ptx.ImmOperand:
		return l.immediate(o.Imm, class), nil
	case ptx.SpecialOperand:
		return l.specialRef(o.Special, class)
	case ptx.FuncOperand:
		f := l.linked.Functions[o.Func.Name]
		if f == nil {
			return Ref{}, l.undefined("function", o.Func.Name)
		}
		return Ref{At: l.constant64(l.linked.FunctionAddresses[f]), Class: ptx.R64}, nil
	case ptx.SymbolOperand:
		return l.symbol(o.Symbol, o.Offset, class)
	case ptx.NoOperand:
		return Ref{Sink: true}, nil
	}
	return Ref{}, l.refuse("an operand of this kind is not supported")
}

// immediate returns the column of a constant.
func (l *lowering) immediate(v uint64, class ptx.Class) Ref {
	switch class {
	case ptx.Pred:
		return Ref{At: l.constantPredicate(v != 0), Class: ptx.Pred}
	case ptx.R64:
		return Ref{At: l.constant64(v), Class: ptx.R64}
	case ptx.R16:
		return Ref{At: l.constant32(uint32(uint16(v))), Class: ptx.R16}
	}
	return Ref{At: l.constant32(uint32(v)), Class: ptx.R32}
}

// mayChange reports whether a special register may change while a warp runs.
func mayChange(s ptx.Special) bool {
	switch s {
	case ptx.Clock, ptx.ClockHi, ptx.Clock64, ptx.Globaltimer, ptx.GlobaltimerLo, ptx.GlobaltimerHi:
		return true
	}
	return false
}

// specialRef returns a column with a special register.
func (l *lowering) specialRef(s ptx.Special, class ptx.Class) (Ref, error) {
	if !mayChange(s) {
		wide := class == ptx.R64
		ref := Ref{At: l.special(s, wide), Class: ptx.R32}
		if wide {
			ref.Class = ptx.R64
		}
		return ref, nil
	}
	ref := Ref{At: l.newColumn(column64), Class: ptx.R64}
	l.emit(Inst{Shape: Clock, D: ref.At, X: &Extra{Special: s}})
	return ref, nil
}

// symbol returns a column with the address of a variable as mov gives it: within its space, except
// for a parameter, whose address is generic.
func (l *lowering) symbol(v *ptx.Var, offset int64, class ptx.Class) (Ref, error) {
	address, frame, err := l.address(v)
	if err != nil {
		return Ref{}, err
	}
	address += uint64(offset)
	if v.Space == ptx.ParamSpace && frame {
		address += space.LocalBase
	} else if v.Space == ptx.ParamSpace {
		address += space.ParamBase
	}
	constant := l.immediate(address, class)
	if !frame || l.fn.ptx.Entry {
		return constant, nil
	}
	// The frame's address is known only at run time.
	if class != ptx.R64 {
		sum := Ref{At: l.newColumn(column32), Class: ptx.R32}
		l.emit(Inst{Shape: Loop32, F32: addLoop32, D: sum.At, A: constant.At, B: l.kernel.Frame})
		return sum, nil
	}
	base, sum := l.newColumn(column64), Ref{At: l.newColumn(column64), Class: ptx.R64}
	l.emit(Inst{Shape: LoopWiden, D: base, A: l.kernel.Frame, B: l.kernel.Frame, C: base, X: &Extra{Widen: widenLoop}})
	l.emit(Inst{Shape: Loop64, F64: addLoop64, D: sum.At, A: constant.At, B: base, C: base})
	return sum, nil
}

// address returns the address of a variable within its space. frame reports that it is relative to
// the function's frame.
func (l *lowering) address(v *ptx.Var) (address uint64, frame bool, err error) {
	switch v.Space {
	case ptx.Shared:
		return l.shared.offset(v, l.kernel.StaticShared), false, nil
	case ptx.Local:
		if l.isModuleLocal(v) {
			return 0, false, l.refuse("local variable '%s' of module scope is not supported", v.Name)
		}
		return uint64(l.fn.local) + v.Offset, true, nil
	case ptx.ParamSpace:
		if v.CallParam {
			return uint64(l.fn.callParams) + v.Offset, true, nil
		}
		return v.Offset, !l.fn.ptx.Entry, nil
	}
	address, ok := l.linked.Addresses[v]
	if !ok {
		return 0, false, l.undefined("variable", v.Name)
	}
	return address, false, nil
}

// isModuleLocal reports whether a variable is a local variable of module scope.
func (l *lowering) isModuleLocal(v *ptx.Var) bool {
	for _, own := range l.fn.ptx.Local {
		if own == v {
			return false
		}
	}
	return true
}

// sources resolves all source operands. class is the class of constants.
func (l *lowering) sources(in *ptx.Inst, class ptx.Class) ([]Ref, error) {
	refs := make([]Ref, len(in.Src))
	for i, o := range in.Src {
		var err error
		if refs[i], err = l.source(o, class); err != nil {
			return nil, err
		}
	}
	return refs, nil
}
