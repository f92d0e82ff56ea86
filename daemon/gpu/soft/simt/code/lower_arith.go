package code

import (
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/lanes"
	"github.com/phos-gpu/phos/internal/ptx"
)

func addLoop32(d, a, b, _ *lanes.V32) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func addLoop64(d, a, b, _ *lanes.V64) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

// widenLoop zero-extends 32-bit lanes.
func widenLoop(d *lanes.V64, a, _ *lanes.V32, _ *lanes.V64) {
	for i := range d {
		d[i] = uint64(a[i])
	}
}

// operandClass returns the register class of a constant as source i of an instruction.
func operandClass(in *ptx.Inst, i int) ptx.Class {
	switch in.Op {
	case ptx.OpShl, ptx.OpShr, ptx.OpBfe, ptx.OpSzext:
		if i > 0 {
			return ptx.R32
		}
	case ptx.OpBfi:
		if i > 1 {
			return ptx.R32
		}
	case ptx.OpMad:
		if i == 2 && in.Mode == ptx.MulWide {
			return classOf(in.Type) + 1 // the next wider one
		}
	case ptx.OpSlct:
		if i == 2 {
			return ptx.R32
		}
	case ptx.OpCvt:
		return classOf(in.SrcType)
	case ptx.OpSet:
		if i == 2 {
			return ptx.Pred
		}
		return classOf(in.SrcType)
	case ptx.OpSetp, ptx.OpSelp:
		if i == 2 {
			return ptx.Pred
		}
	case ptx.OpLop3:
		if i == 4 {
			return ptx.Pred
		}
	}
	return classOf(in.Type)
}

// operands resolves all sources of an arithmetic instruction.
func (l *lowering) operands(in *ptx.Inst) ([]Ref, error) {
	refs := make([]Ref, len(in.Src))
	for i, o := range in.Src {
		var err error
		if refs[i], err = l.source(o, operandClass(in, i)); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// allOfClass reports whether all refs are of a class.
func allOfClass(class ptx.Class, refs ...Ref) bool {
	for _, r := range refs {
		if r.Class != class || r.Sink {
			return false
		}
	}
	return true
}

// columnAt returns the column of ref i, or of ref 0 if there is no ref i: a loop needs a valid
// pointer even for operands that it does not read.
func columnAt(refs []Ref, i int) uint32 {
	if i < len(refs) {
		return refs[i].At
	}
	return refs[0].At
}

// arithmetic lowers instructions that compute registers from registers.
func (l *lowering) arithmetic(in *ptx.Inst) error {
	if in.Type == ptx.PredType {
		return l.predicateLogic(in)
	}
	src, err := l.operands(in)
	if err != nil {
		return err
	}
	dst := l.destination(in, 0)
	if carry := arith.LookupCarry(in); carry != nil {
		l.emit(
			Inst{
				Shape: ScalarCarry,
				X:     &Extra{Carry: carry, CarryOut: in.Flags&ptx.CC != 0, Dst: []Ref{dst}, Src: src},
			},
		)
		return nil
	}
	if dst.Sink && in.Op != ptx.OpLop3 {
		return nil // the result is not used
	}
	if l.loop(in, dst, src) {
		return nil
	}
	if in.Op == ptx.OpLop3 {
		return l.lop3(in, dst, src)
	}
	f := arith.Lookup(in)
	if f == nil || len(src) > 4 {
		return l.refuse("this combination is not supported")
	}
	l.emit(Inst{Shape: Scalar, X: &Extra{Scalar: f, Dst: []Ref{dst}, Src: src}})
	return nil
}

// loop lowers to a loop over the lanes if there is one.
func (l *lowering) loop(in *ptx.Inst, dst Ref, src []Ref) bool {
	out := Inst{D: dst.At, A: columnAt(src, 0), B: columnAt(src, 1), C: columnAt(src, 2)}
	narrow := allOfClass(ptx.R32, src...)
	wide := allOfClass(ptx.R64, src...)
	switch {
	case dst.Class == ptx.R32 && narrow:
		out.Shape, out.F32 = Loop32, lanes.Find32(in)
		if out.F32 == nil {
			out.F32 = lanes.FindConvert(in)
		}
		if out.F32 == nil {
			return false
		}
	case dst.Class == ptx.R64 && wide:
		if out.F64 = lanes.Find64(in); out.F64 == nil {
			return false
		}
		out.Shape = Loop64
	case dst.Class == ptx.R64 && len(src) > 0 && allOfClass(ptx.R32, src[:min(2, len(src))]...):
		w := lanes.FindWiden(in)
		if w == nil || len(src) == 3 && src[2].Class != ptx.R64 {
			return false
		}
		if len(src) < 3 {
			out.C = dst.At
		}
		out.Shape, out.X = LoopWiden, &Extra{Widen: w}
	case dst.Class == ptx.R64 && len(src) == 2 && src[0].Class == ptx.R64 && src[1].Class == ptx.R32:
		s := lanes.FindShift64(in)
		if s == nil {
			return false
		}
		out.Shape, out.X = LoopShift64, &Extra{Shift64: s}
	case dst.Class == ptx.R32 && wide:
		n := lanes.FindNarrow(in)
		if n == nil {
			return false
		}
		out.Shape, out.X = LoopNarrow, &Extra{Narrow: n}
	default:
		return false
	}
	l.emit(out)
	return true
}

// lop3 lowers lop3, which may have a predicate as second result: whether the first is not zero,
// combined with another predicate.
func (l *lowering) lop3(in *ptx.Inst, dst Ref, src []Ref) error {
	if dst.Sink {
		dst = Ref{At: l.newColumn(column32), Class: ptx.R32}
	}
	l.emit(Inst{Shape: Scalar, X: &Extra{Scalar: arith.Lookup(in), Dst: []Ref{dst}, Src: src[:3]}})
	if len(in.Dst) < 2 || len(src) < 5 {
		return nil
	}
	notZero := func(a, _, _, _ uint64) uint64 { return min(a, 1) }
	out := Inst{
		Shape: ScalarCompare, Bool: in.Bool, D: l.destination(in, 1).At, Q: NoPredicate, C: src[4].At,
		NegateC: src[4].Negated, X: &Extra{Scalar: notZero, Src: []Ref{dst}},
	}
	l.emit(out)
	return nil
}

// compare lowers setp and testp.
func (l *lowering) compare(in *ptx.Inst) error {
	src, err := l.operands(in)
	if err != nil {
		return err
	}
	out := Inst{Bool: in.Bool, Q: NoPredicate, A: src[0].At, B: columnAt(src, 1)}
	p, q := l.destination(in, 0), l.destination(in, 1)
	if p.Sink {
		p.At = uint32(l.newPredicate())
	}
	out.D = p.At
	if !q.Sink {
		out.Q = int32(q.At)
	}
	if in.Bool != ptx.BoolNone {
		out.C, out.NegateC = src[2].At, src[2].Negated
		src = src[:2]
	}
	out.X = &Extra{Src: src}
	if in.Op == ptx.OpSetp && l.compareLoop(in, &out, src) {
		l.emit(out)
		return nil
	}
	out.Shape = ScalarCompare
	if out.X.Scalar = arith.Lookup(in); out.X.Scalar == nil {
		return l.refuse("this combination is not supported")
	}
	if in.Type == ptx.F16X2 || in.Type == ptx.BF16X2 {
		return l.compareHalves(in, out)
	}
	l.emit(out)
	return nil
}

// compareLoop lowers setp to a loop over the lanes if there is one.
func (l *lowering) compareLoop(in *ptx.Inst, out *Inst, src []Ref) bool {
	var order lanes.Order
	switch {
	case allOfClass(ptx.R32, src...):
		out.Shape = LoopCompare32
		out.X.Compare32, order = lanes.FindCompare32(in)
	case allOfClass(ptx.R64, src...):
		out.Shape = LoopCompare64
		out.X.Compare64, order = lanes.FindCompare64(in)
	}
	if out.X.Compare32 == nil && out.X.Compare64 == nil {
		return false
	}
	out.Invert = order.Invert
	if order.Swap {
		out.A, out.B = out.B, out.A
	}
	return true
}

// compareHalves lowers setp on packed halves: p is the lower, q the upper result.
func (l *lowering) compareHalves(in *ptx.Inst, out Inst) error {
	single := *in
	single.Type = ptx.F16
	if in.Type == ptx.BF16X2 {
		single.Type = ptx.BF16
	}
	f := arith.Lookup(&single)
	upper := out
	out.Q = NoPredicate
	out.X = &Extra{Src: out.X.Src, Scalar: func(a, b, _, _ uint64) uint64 { return f(a&0xffff, b&0xffff, 0, 0) }}
	// The combining predicate may be the first destination, so compute the upper half first.
	if upper.Q != NoPredicate {
		upper.D, upper.Q = uint32(upper.Q), NoPredicate
		upper.X = &Extra{
			Src:    upper.X.Src,
			Scalar: func(a, b, _, _ uint64) uint64 { return f(a>>16&0xffff, b>>16&0xffff, 0, 0) },
		}
		if upper.Bool != ptx.BoolNone && upper.D == upper.C {
			return l.refuse("the second result overwrites the combining predicate")
		}
		l.emit(upper)
	}
	l.emit(out)
	return nil
}

// predicateLogic lowers mov, and, or, xor and not on predicates.
func (l *lowering) predicateLogic(in *ptx.Inst) error {
	src, err := l.sources(in, ptx.Pred)
	if err != nil {
		return err
	}
	dst := l.destination(in, 0)
	if dst.Sink {
		return nil
	}
	out := Inst{Shape: PredicateLogic, D: dst.At, Q: NoPredicate, X: &Extra{Src: src}}
	switch in.Op {
	case ptx.OpAnd:
		out.Bool = ptx.BoolAnd
	case ptx.OpOr:
		out.Bool = ptx.BoolOr
	case ptx.OpXor:
		out.Bool = ptx.BoolXor
	case ptx.OpNot:
		out.Invert = true
	case ptx.OpMov:
	default:
		return l.refuse("predicates cannot be operands")
	}
	l.emit(out)
	return nil
}

// selection lowers selp.
func (l *lowering) selection(in *ptx.Inst) error {
	src, err := l.operands(in)
	if err != nil {
		return err
	}
	dst := l.destination(in, 0)
	if dst.Sink {
		return nil
	}
	out := Inst{Shape: Select32, D: dst.At, A: src[0].At, B: src[1].At, C: src[2].At, NegateC: src[2].Negated}
	if dst.Class == ptx.R64 {
		out.Shape = Select64
	}
	l.emit(out)
	return nil
}

// move lowers mov between registers of one class and from constants, special registers and
// addresses.
func (l *lowering) move(in *ptx.Inst) error {
	if in.Type == ptx.PredType {
		return l.predicateLogic(in)
	}
	dst := l.destination(in, 0)
	if dst.Sink {
		return nil
	}
	if len(in.Src) == 1 && in.Src[0].Kind == ptx.SpecialOperand && mayChange(in.Src[0].Special) {
		return l.clock(in, dst)
	}
	src, err := l.sources(in, dst.Class)
	if err != nil {
		return err
	}
	switch {
	case dst.Class == ptx.R64 && src[0].Class == ptx.R64:
		l.emit(Inst{Shape: Loop64, F64: lanes.Copy64, D: dst.At, A: src[0].At, B: src[0].At, C: src[0].At})
	case dst.Class == src[0].Class:
		l.emit(Inst{Shape: Loop32, F32: lanes.Copy32, D: dst.At, A: src[0].At, B: src[0].At, C: src[0].At})
	default:
		same := func(a, _, _, _ uint64) uint64 { return a }
		l.emit(Inst{Shape: Scalar, X: &Extra{Scalar: same, Dst: []Ref{dst}, Src: src}})
	}
	return nil
}

// clock lowers a read of a special register that changes, through a 64-bit column.
func (l *lowering) clock(in *ptx.Inst, dst Ref) error {
	src, err := l.specialRef(in.Src[0].Special, dst.Class)
	if err != nil {
		return err
	}
	same := func(a, _, _, _ uint64) uint64 { return a }
	l.emit(Inst{Shape: Scalar, X: &Extra{Scalar: same, Dst: []Ref{dst}, Src: []Ref{src}}})
	return nil
}

// pack lowers mov between a register and a vector of narrower registers.
func (l *lowering) pack(in *ptx.Inst) error {
	class := classOf(in.SrcType)
	shape := Pack
	if in.Op == ptx.OpUnpack {
		shape, class = Unpack, classOf(in.Type)
	}
	src, err := l.sources(in, class)
	if err != nil {
		return err
	}
	if in.Type.Bits() > 64 {
		return l.refuse("128-bit registers are not supported")
	}
	dst := make([]Ref, len(in.Dst))
	for i := range in.Dst {
		dst[i] = l.destination(in, i)
	}
	l.emit(Inst{Shape: shape, X: &Extra{Element: uint8(in.SrcType.Bits() / 8), Dst: dst, Src: src}})
	return nil
}
