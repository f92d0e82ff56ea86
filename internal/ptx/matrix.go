package ptx

import (
	"strings"
)

// matrixShapes are the rows of a, c and d and the inner length of the shapes of mma. b and d have 8
// columns.
var matrixShapes = map[Mode][2]int{
	MmaM8N8K4: {8, 4}, MmaM8N8K16: {8, 16}, MmaM16N8K4: {16, 4}, MmaM16N8K8: {16, 8}, MmaM16N8K16: {16, 16},
	MmaM16N8K32: {16, 32},
}

// MatrixShape returns the sizes of an mma, which computes d = a b + c: the rows of a, c and d, and
// the columns of a, which are the rows of b. b, c and d have 8 columns.
func (i *Inst) MatrixShape() (rows, inner int) {
	shape := matrixShapes[i.Mode]
	return shape[0], shape[1]
}

// Fragments splits the sources of mma into the registers of a, b and c.
func (i *Inst) Fragments() (a, b, c []Operand) {
	rows, inner := i.MatrixShape()
	inA := fragmentRegisters(rows*inner, i.SrcType)
	inB := fragmentRegisters(8*inner, i.ThirdType)
	return i.Src[:inA], i.Src[inA : inA+inB], i.Src[inA+inB:]
}

// fragmentRegisters returns how many registers of each lane hold a matrix; narrow elements share 32
// bits.
func fragmentRegisters(elements int, t Type) int {
	return elements / 32 * t.Bits() / max(t.Bits(), 32)
}

// fragmentType returns the register type of a matrix fragment. Halves and bytes are in 32-bit
// registers.
func fragmentType(t Type) Type {
	switch t {
	case F16, BF16:
		return B32
	case U8, S8:
		return U32
	}
	return t
}

// verifyMatrix checks that c has the type of d, and that a and b differ at most in their sign.
func verifyMatrix(d *decoded) bool {
	i := &d.inst
	return d.fourth == i.Type && (i.SrcType == i.ThirdType || i.Type == S32)
}

// matrix checks the four vectors of mma.
func (p *parser) matrix(inst *Inst) {
	if !p.need(inst, 4) {
		return
	}
	rows, inner := inst.MatrixShape()
	inD, inA := fragmentRegisters(rows*8, inst.Type), fragmentRegisters(rows*inner, inst.SrcType)
	inB := fragmentRegisters(8*inner, inst.ThirdType)
	all := p.takeOperands(2*inD + inA + inB)
	inst.Dst, inst.Src = all[:inD:inD], all[inD:]
	p.fragment(&p.ops[0], inst.Dst, inst.Type, true)
	p.fragment(&p.ops[1], inst.Src[:inA], inst.SrcType, false)
	p.fragment(&p.ops[2], inst.Src[inA:inA+inB], inst.ThirdType, false)
	p.fragment(&p.ops[3], inst.Src[inA+inB:], inst.Type, false)
}

// fragment checks one vector and stores its elements.
func (p *parser) fragment(o *rawOperand, into []Operand, t Type, dst bool) {
	switch {
	case o.kind != rawVector:
		p.errorAt(o.pos, "expected a vector of %d elements", len(into))
		return
	case o.count != len(into):
		p.errorAt(o.pos, "a vector of %d elements, expected %d", o.count, len(into))
		return
	}
	t = fragmentType(t)
	for i := range into {
		e := &p.elems[o.first+i]
		switch {
		case dst && e.kind == rawSink:
			into[i] = Operand{Kind: RegOperand, Reg: NoReg}
		case dst:
			into[i] = p.destination(e, t, Type.accepts)
		default:
			into[i] = p.source(e, t, Type.accepts)
		}
	}
}

// fragmentTexts formats the four vectors of mma.
func (i *Inst) fragmentTexts() (texts []string) {
	a, b, c := i.Fragments()
	for _, list := range [][]Operand{i.Dst, a, b, c} {
		texts = append(texts, "{"+strings.Join(operandList(list, i.typeOf, false), ", ")+"}")
	}
	return texts
}

// copyAsync checks cp.async: destination, source, number of bytes, and optionally how many of them
// are read, the rest being zeros, or a predicate to read none.
func (p *parser) copyAsync(d *decoded, inst *Inst) {
	n := len(p.ops)
	if d.policy {
		p.dropPolicy(inst)
		n--
	}
	if n != 3 && n != 4 {
		p.errorAt(inst.Pos, "'cp.async' takes 3 to 4 operands, found %d", n)
		return
	}
	p.address(inst, &p.ops[0])
	from := Inst{Op: OpLd, Space: Global, Addr: Address{Reg: NoReg}}
	p.address(&from, &p.ops[1])
	inst.From = &Address{Reg: from.Addr.Reg, Symbol: from.Addr.Symbol, Offset: from.Addr.Offset}
	size := &p.ops[2]
	bytes := size.val.bits
	if size.kind != rawConst || size.val.float || bytes != 16 && (inst.Mode == CopyCG || bytes != 4 && bytes != 8) {
		p.errorAt(size.pos, "cp.async.ca copies 4, 8 or 16 bytes, cp.async.cg 16")
		return
	}
	inst.Type, inst.Vec = B32, uint8(bytes/4)
	if n == 3 {
		return
	}
	t, o := U32, &p.ops[3]
	if o.kind == rawReg && o.typ == PredType {
		t = PredType
	}
	inst.Src = p.takeOperands(1)
	inst.Src[0] = p.source(o, t, Type.accepts)
	if o.paired || o.kind == rawConst && inst.Src[0].Imm > bytes {
		p.errorAt(o.pos, "expected how many of the %d bytes are read, or a predicate", bytes)
	}
}

// waitGroup checks the number of groups of cp.async.wait_group, which has no effect.
func (p *parser) waitGroup(inst *Inst) {
	if p.need(inst, 1) {
		if o := &p.ops[0]; o.kind != rawConst || o.val.float {
			p.errorAt(o.pos, "expected a number of groups")
		}
	}
}
