package ptx

// typeFamily groups types that registers and instructions may mix.
type typeFamily uint8

const (
	familyNone typeFamily = iota
	familyBits
	familyInteger
	familyFloat
	familyPredicate
)

// typeFacts describes a fundamental type.
type typeFacts struct {
	name   string
	family typeFamily
	bits   uint16
	signed bool
}

var types = [...]typeFacts{
	NoType: {name: "none"},
	B8:     {"b8", familyBits, 8, false}, B16: {"b16", familyBits, 16, false},
	B32: {"b32", familyBits, 32, false}, B64: {"b64", familyBits, 64, false}, B128: {"b128", familyBits, 128, false},
	U8: {"u8", familyInteger, 8, false}, U16: {"u16", familyInteger, 16, false},
	U32: {"u32", familyInteger, 32, false}, U64: {"u64", familyInteger, 64, false},
	S8: {"s8", familyInteger, 8, true}, S16: {"s16", familyInteger, 16, true},
	S32: {"s32", familyInteger, 32, true}, S64: {"s64", familyInteger, 64, true},
	U16X2: {"u16x2", familyFloat, 32, false}, S16X2: {"s16x2", familyFloat, 32, false},
	F16: {"f16", familyFloat, 16, false}, F16X2: {"f16x2", familyFloat, 32, false},
	BF16: {"bf16", familyFloat, 16, false}, BF16X2: {"bf16x2", familyFloat, 32, false},
	F32: {"f32", familyFloat, 32, false}, F64: {"f64", familyFloat, 64, false},
	PredType: {"pred", familyPredicate, 1, false},
}

// typesByName finds a type by its suffix without the dot.
var typesByName = func() map[string]Type {
	byName := map[string]Type{}
	for t := B8; int(t) < len(types); t++ {
		byName[types[t].name] = t
	}
	return byName
}()

func (t Type) String() string {
	if int(t) < len(types) {
		return types[t].name
	}
	return "invalid"
}

// Bits is the width of a value of the type; 1 for a predicate.
func (t Type) Bits() int { return int(types[t].bits) }

// Bytes is the size in memory; 0 for a predicate, which has none.
func (t Type) Bytes() uint64 { return uint64(types[t].bits) / 8 }

// IsFloat reports whether the type is a floating point type, packed ones included.
func (t Type) IsFloat() bool { return types[t].family == familyFloat && t != U16X2 && t != S16X2 }

// IsSigned reports whether the type is a signed integer.
func (t Type) IsSigned() bool { return types[t].signed }

// class is the register class that holds values of the type.
func (t Type) class() Class {
	switch t.Bits() {
	case 1:
		return Pred
	case 8, 16:
		return R16
	case 32:
		return R32
	}
	return R64
}

// wide is the type of twice the width, for mul.wide and mad.wide.
func (t Type) wide() Type {
	switch t {
	case U16:
		return U32
	case S16:
		return S32
	case U32:
		return U64
	case S32:
		return S64
	}
	return NoType
}

// accepts reports whether an instruction operand of type t may be a register declared with type reg. Untyped bits go
// with everything of their size, the two kinds of integers with each other, floats only with themselves.
func (t Type) accepts(reg Type) bool {
	return types[t].bits == types[reg].bits && t.mixes(reg)
}

// acceptsWider is the relaxed rule of ld, st and cvt: the register may be wider than the instruction's type.
func (t Type) acceptsWider(reg Type) bool {
	if types[reg].bits <= types[t].bits {
		return t.accepts(reg)
	}
	switch types[t].family {
	case familyBits:
		return types[reg].family != familyPredicate
	case familyInteger:
		return types[reg].family == familyBits || types[reg].family == familyInteger
	}
	return types[reg].family == familyBits
}

// mixes compares families only.
func (t Type) mixes(reg Type) bool {
	a, b := types[t].family, types[reg].family
	switch {
	case a == familyPredicate || b == familyPredicate:
		return a == b
	case a == familyBits || b == familyBits:
		return true
	case a == familyInteger:
		return b == familyInteger
	}
	return t == reg
}
