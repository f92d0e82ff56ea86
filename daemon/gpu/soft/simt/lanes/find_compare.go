package lanes

import "github.com/phos-gpu/phos/internal/ptx"

// Order tells how to use a comparison loop: with its operands swapped, or its result inverted.
type Order struct{ Swap, Invert bool }

// reduce expresses a comparison by the loops that exist: eq, lt and le.
func reduce(in *ptx.Inst) (base ptx.Cmp, k kind, order Order) {
	k = kindOf(in.Type)
	switch in.Cmp {
	case ptx.LO, ptx.LS, ptx.HI, ptx.HS:
		k = unsigned
	}
	switch in.Cmp {
	case ptx.EQ, ptx.NEU:
		return in.Cmp, k, order
	case ptx.NE:
		if k == float {
			return ptx.CmpNone, k, order // ordered and not equal
		}
		return ptx.NE, k, order
	case ptx.LT, ptx.LO:
		return ptx.LT, k, order
	case ptx.LE, ptx.LS:
		return ptx.LE, k, order
	case ptx.GT, ptx.HI:
		return ptx.LT, k, Order{Swap: true}
	case ptx.GE, ptx.HS:
		return ptx.LE, k, Order{Swap: true}
	case ptx.LTU:
		return ptx.LE, k, Order{Swap: true, Invert: true}
	case ptx.LEU:
		return ptx.LT, k, Order{Swap: true, Invert: true}
	case ptx.GTU:
		return ptx.LE, k, Order{Invert: true}
	case ptx.GEU:
		return ptx.LT, k, Order{Invert: true}
	}
	return ptx.CmpNone, k, order
}

type compareKey struct {
	cmp  ptx.Cmp
	kind kind
}

var compares32 = map[compareKey]Compare32{
	{ptx.EQ, unsigned}: eq32, {ptx.EQ, signed}: eq32, {ptx.EQ, float}: eqF32,
	{ptx.NE, unsigned}: ne32, {ptx.NE, signed}: ne32, {ptx.NEU, float}: neuF32,
	{ptx.LT, unsigned}: ltU32, {ptx.LT, signed}: ltS32, {ptx.LT, float}: ltF32,
	{ptx.LE, unsigned}: leU32, {ptx.LE, signed}: leS32, {ptx.LE, float}: leF32,
}

var compares64 = map[compareKey]Compare64{
	{ptx.EQ, unsigned}: eq64, {ptx.EQ, signed}: eq64, {ptx.EQ, float}: eqF64,
	{ptx.NE, unsigned}: ne64, {ptx.NE, signed}: ne64, {ptx.NEU, float}: neuF64,
	{ptx.LT, unsigned}: ltU64, {ptx.LT, signed}: ltS64, {ptx.LT, float}: ltF64,
	{ptx.LE, unsigned}: leU64, {ptx.LE, signed}: leS64, {ptx.LE, float}: leF64,
}

// FindCompare32 returns the loop of a setp on 32-bit operands.
func FindCompare32(in *ptx.Inst) (Compare32, Order) {
	if in.Flags&ptx.FTZ != 0 || in.Type.Bits() != 32 || packed(in.Type) {
		return nil, Order{}
	}
	cmp, k, order := reduce(in)
	at := compareKey{cmp, k}
	return firstOf(fast.compares[at], compares32[at]), order
}

// FindCompare64 is the same for 64 bits.
func FindCompare64(in *ptx.Inst) (Compare64, Order) {
	if in.Type.Bits() != 64 {
		return nil, Order{}
	}
	cmp, k, order := reduce(in)
	at := compareKey{cmp, k}
	return firstOf(fast.compares2[at], compares64[at]), order
}
