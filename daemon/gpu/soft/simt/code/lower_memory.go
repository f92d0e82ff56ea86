package code

import (
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/lanes"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/internal/ptx"
)

// memory sets the fields for an instruction's memory operand.
func (l *lowering) memory(in *ptx.Inst, out *Inst) error {
	m := &out.Memory
	m.Bytes, m.Vec = uint8(in.Type.Bits()/8), max(in.Vec, 1)
	m.Signed, m.Sync = in.Type.IsSigned(), in.Flags&ptx.Volatile != 0
	m.Space = map[ptx.Space]Space{
		ptx.Generic: Generic, ptx.Global: Global, ptx.Const: Global, ptx.Shared: Shared, ptx.Local: Local,
		ptx.ParamSpace: Generic, // through a register; symbols are resolved below
	}[in.Space]
	out.Offset = in.Addr.Offset
	if m.Space != Shared && m.Space != Local {
		out.Site = l.text.Sites
		l.text.Sites++
	}
	switch {
	case in.Addr.Symbol != nil:
		return l.symbolMemory(in.Addr.Symbol, in.Space, out)
	case in.Addr.Reg.Index >= 0:
		ref := l.register(in.Addr.Reg)
		out.A, m.Address32 = ref.At, ref.Class != ptx.R64
	default:
		out.A, out.Offset = l.constant64(uint64(in.Addr.Offset)), 0
	}
	return nil
}

// symbolMemory resolves an access to a variable: the address is a constant or a place in the frame.
func (l *lowering) symbolMemory(v *ptx.Var, used ptx.Space, out *Inst) error {
	m := &out.Memory
	address, frame, err := l.address(v)
	if err != nil {
		return err
	}
	switch {
	case v.Space == ptx.Shared:
		m.Space = Shared
		if used == ptx.Generic {
			m.Space, address = Generic, address+space.SharedBase
		}
	case frame:
		m.Space, m.Frame = Local, !l.fn.ptx.Entry
	case v.Space == ptx.ParamSpace:
		m.Space, address = Generic, address+space.ParamBase
	default:
		m.Space = Global
	}
	out.A, out.Offset = l.constant64(address+uint64(out.Offset)), 0
	return nil
}

// load lowers ld and ldu.
func (l *lowering) load(in *ptx.Inst) error {
	out := Inst{Shape: Load}
	if err := l.memory(in, &out); err != nil {
		return err
	}
	dst := make([]Ref, len(in.Dst))
	for i := range in.Dst {
		dst[i] = l.destination(in, i)
	}
	out.X = &Extra{Dst: dst}
	if v := in.Addr.Symbol; v != nil && v.Space == ptx.ParamSpace && !v.CallParam && l.fn.ptx.Entry {
		out.Shape, out.Offset = Param, int64(v.Offset)+in.Addr.Offset
		end := out.Offset + int64(out.Memory.Bytes)*int64(out.Memory.Vec)
		if out.Offset < 0 || end > int64(l.fn.ptx.ParamBytes) {
			return l.refuse("the access is outside the parameters")
		}
	}
	out.D = dst[0].At
	out.Memory.Simple = len(dst) == 1 && simple(out.Memory, dst[0])
	l.emit(out)
	return nil
}

// simple reports whether memory and register have the same width, so that the loops for it apply.
func simple(m Memory, r Ref) bool {
	return !r.Sink && !m.Sync && m.Vec == 1 && (m.Bytes == 4 && r.Class == ptx.R32 || m.Bytes == 8 && r.Class == ptx.R64)
}

// store lowers st.
func (l *lowering) store(in *ptx.Inst) error {
	out := Inst{Shape: Store}
	if err := l.memory(in, &out); err != nil {
		return err
	}
	if v := in.Addr.Symbol; v != nil && v.Space == ptx.ParamSpace && !v.CallParam && l.fn.ptx.Entry {
		return l.refuse("parameters of a kernel cannot be written")
	}
	src, err := l.sources(in, classOf(in.Type))
	if err != nil {
		return err
	}
	out.X = &Extra{Src: src}
	out.B = src[0].At
	out.Memory.Simple = len(src) == 1 && simple(out.Memory, src[0])
	l.emit(out)
	return nil
}

// atomic lowers atom and red. A vector is lowered element by element.
func (l *lowering) atomic(in *ptx.Inst) error {
	operation := arith.LookupAtomic(in.Atom, in.Type)
	if operation == nil {
		return l.refuse("this combination is not supported")
	}
	src, err := l.sources(in, classOf(in.Type))
	if err != nil {
		return err
	}
	vec := int(max(in.Vec, 1))
	for i := range vec {
		out := Inst{Shape: Atomic, X: &Extra{Atomic: operation, Type: in.Type}}
		if err := l.memory(in, &out); err != nil {
			return err
		}
		out.Memory.Vec = 1
		if in.Addr.Symbol != nil || in.Addr.Reg.Index < 0 {
			out.A = l.constant64(l.constantAt(out.A) + uint64(i)*uint64(out.Memory.Bytes))
		} else {
			out.Offset += int64(i) * int64(out.Memory.Bytes)
		}
		dst := l.destination(in, i)
		if in.Op == ptx.OpRed {
			dst = Ref{Sink: true}
		}
		out.X.Dst = []Ref{dst}
		out.X.Src = src[i:]
		if vec > 1 {
			out.X.Src = src[i : i+1]
		}
		l.emit(out)
	}
	return nil
}

// constantAt returns the value of a 64-bit constant's column.
func (l *lowering) constantAt(at uint32) uint64 {
	for _, c := range l.block.Constants64 {
		if c.At == at {
			return c.Value
		}
	}
	return 0
}

// windowBase returns the start of a state space in the generic address space.
func windowBase(s ptx.Space) uint64 {
	switch s {
	case ptx.Shared:
		return space.SharedBase
	case ptx.Local:
		return space.LocalBase
	}
	return 0
}

// cvta lowers the conversion between an address in a space and a generic one.
func (l *lowering) cvta(in *ptx.Inst) error {
	dst := l.destination(in, 0)
	src, err := l.sources(in, classOf(in.Type))
	if err != nil || dst.Sink {
		return err
	}
	base := windowBase(in.Space)
	if base != 0 && dst.Class != ptx.R64 {
		return l.refuse("generic addresses have 64 bits")
	}
	if in.Mode == ptx.CvtaTo {
		base = -base
	}
	switch {
	case base == 0 && dst.Class == ptx.R64 && src[0].Class == ptx.R64:
		l.emit(Inst{Shape: Loop64, F64: lanes.Copy64, D: dst.At, A: src[0].At, B: src[0].At, C: src[0].At})
	default:
		add := func(a, _, _, _ uint64) uint64 { return a + base }
		l.emit(Inst{Shape: Scalar, X: &Extra{Scalar: add, Dst: []Ref{dst}, Src: src}})
	}
	return nil
}

// isspacep lowers the test for the window of a generic address. Constants are in global memory and
// have no window of their own.
func (l *lowering) isspacep(in *ptx.Inst) error {
	dst := l.destination(in, 0)
	src, err := l.sources(in, classOf(in.Type))
	if err != nil || dst.Sink {
		return err
	}
	window := func(base uint64) arith.Func {
		return func(a, _, _, _ uint64) uint64 {
			if a-base < space.WindowBytes {
				return 1
			}
			return 0
		}
	}
	var f arith.Func
	switch in.Space {
	case ptx.Shared:
		f = window(space.SharedBase)
	case ptx.Local:
		f = window(space.LocalBase)
	case ptx.ParamSpace:
		f = window(space.ParamBase)
	case ptx.Global:
		f = func(a, _, _, _ uint64) uint64 {
			if a-space.SharedBase < space.CodeBase-space.SharedBase {
				return 0
			}
			return 1
		}
	default:
		f = func(_, _, _, _ uint64) uint64 { return 0 }
	}
	l.emit(Inst{Shape: ScalarCompare, D: dst.At, Q: NoPredicate, X: &Extra{Scalar: f, Src: src}})
	return nil
}
