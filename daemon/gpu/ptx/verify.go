package ptx

// verifiers refuse combinations of modifiers that a form's words let through.
var verifiers = map[Op]func(*decoded) bool{
	OpCvt: verifyCvt, OpLd: verifyMemory, OpSt: verifyMemory, OpLdu: verifyMemory, OpAtom: verifyMemory, OpRed: verifyMemory,
	OpAddc: verifyCarry, OpSubc: verifyCarry, OpMadc: verifyCarry,
	OpMad: verifyMad, OpMad24: verifyMad,
}

// verifyCarry marks what reads the carry.
func verifyCarry(d *decoded) bool {
	d.inst.Flags |= CarryIn
	return true
}

// verifyMad allows saturation in mad.hi only.
func verifyMad(d *decoded) bool { return d.inst.Flags&Sat == 0 || d.inst.Mode == MulHi }

// verifyMemory bounds vectors: 16 bytes, or 32 of global memory, where v8 is of 32-bit elements only.
func verifyMemory(d *decoded) bool {
	bits := int(d.inst.Vec) * d.inst.Type.Bits()
	switch {
	case d.hinted && d.inst.Space != Generic && d.inst.Space != Global:
		return false
	case d.inst.Vec == 8 && d.inst.Op != OpAtom && d.inst.Op != OpRed:
		return d.inst.Space == Global && d.inst.Type.Bits() == 32
	case bits == 256:
		return d.inst.Space == Global && d.inst.Type.Bits() == 64 && d.inst.Op != OpLdu
	}
	return bits <= 128
}

// verifyCvt holds the matrix of conversions: which need rounding, and of which kind.
func verifyCvt(d *decoded) bool {
	to, from, i := d.inst.Type, d.inst.SrcType, &d.inst
	integral := i.Round >= RNI
	if i.Flags&FTZ != 0 && to != F32 && from != F32 {
		return false
	}
	if i.Flags&Sat != 0 && i.Round < RNI && (to == BF16 || from == BF16) && i.Flags&Relu == 0 {
		return false
	}
	switch {
	case to == F16X2 || to == BF16X2 || i.Flags&Relu != 0:
		return true
	case !to.IsFloat() && !from.IsFloat():
		return i.Round == RoundDefault
	case !to.IsFloat():
		return integral
	case !from.IsFloat():
		return i.Round != RoundDefault && !integral
	case to == from:
		return i.Round == RoundDefault || integral
	case to.Bits() >= from.Bits() && to != F16 && to != BF16:
		return i.Round == RoundDefault
	}
	return i.Round != RoundDefault && !integral
}
