package arith

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/internal/ptx"
)

// The oracle: exact rational arithmetic, rounded to a format by integer division.

type layout struct {
	mantissa, exponent int
	typ                ptx.Type
}

var layouts = []layout{{52, 11, ptx.F64}, {23, 8, ptx.F32}, {10, 5, ptx.F16}, {7, 8, ptx.BF16}}

// rational returns the exact value of finite bits.
func (l layout) rational(bits uint64) *big.Rat {
	exp := int(bits>>l.mantissa) & (1<<l.exponent - 1)
	fraction := int64(bits & (1<<l.mantissa - 1))
	bias := 1<<(l.exponent-1) - 1
	if exp == 0 {
		exp = 1
	} else {
		fraction |= 1 << l.mantissa
	}
	r := new(big.Rat).SetInt64(fraction)
	r.Mul(r, power(exp-bias-l.mantissa))
	if bits>>(l.mantissa+l.exponent)&1 == 1 {
		r.Neg(r)
	}
	return r
}

func power(e int) *big.Rat {
	one := big.NewInt(1)
	if e < 0 {
		return new(big.Rat).SetFrac(one, new(big.Int).Lsh(one, uint(-e)))
	}
	return new(big.Rat).SetInt(new(big.Int).Lsh(one, uint(e)))
}

// round rounds a non-zero exact value.
func (l layout) round(x *big.Rat, mode ptx.Round) uint64 {
	negative := x.Sign() < 0
	x = new(big.Rat).Abs(x)
	bias := 1<<(l.exponent-1) - 1
	exp := x.Num().BitLen() - x.Denom().BitLen()
	if x.Cmp(power(exp)) < 0 {
		exp--
	}
	exp = max(exp, 1-bias)
	scaled := new(big.Rat).Quo(x, power(exp-l.mantissa))
	quotient, rest := new(big.Int).QuoRem(scaled.Num(), scaled.Denom(), new(big.Int))
	half := new(big.Int).Lsh(rest, 1).Cmp(scaled.Denom())
	switch {
	case rest.Sign() == 0:
	case mode == ptx.RP && !negative, mode == ptx.RM && negative,
		mode == ptx.RN && (half > 0 || half == 0 && quotient.Bit(0) == 1):
		quotient.Add(quotient, big.NewInt(1))
	}
	result := quotient.Uint64()
	if exp > 1-bias || result >= 1<<l.mantissa {
		result += uint64(exp+bias-1) << l.mantissa
	}
	if largest := uint64(1<<l.exponent-1) << l.mantissa; result >= largest {
		result = largest
		if mode == ptx.RZ || mode == ptx.RM && !negative || mode == ptx.RP && negative {
			result--
		}
	}
	if negative {
		result |= 1 << (l.mantissa + l.exponent)
	}
	return result
}

// operand returns random bits that often hit special cases: extreme exponents, few or many mantissa
// bits set.
func (l layout) operand(random *rand.Rand) uint64 {
	exp := random.Uint64N(1<<l.exponent - 1)
	switch random.IntN(6) {
	case 0:
		exp = random.Uint64N(3)
	case 1:
		exp = 1<<l.exponent - 2 - random.Uint64N(3)
	case 2, 3:
		exp = 1<<(l.exponent-1) - 1 + random.Uint64N(6) - 3
	}
	fraction := random.Uint64() & (1<<l.mantissa - 1)
	switch random.IntN(4) {
	case 0:
		fraction &= random.Uint64() & random.Uint64() & random.Uint64() //nolint:staticcheck // three different draws
	case 1:
		fraction |= (1<<l.mantissa - 1) &^ 7
	}
	return random.Uint64()&1<<(l.mantissa+l.exponent) | exp<<l.mantissa | fraction
}

func TestRoundingAgainstRationals(t *testing.T) {
	modes := []ptx.Round{ptx.RN, ptx.RZ, ptx.RM, ptx.RP}
	for _, l := range layouts {
		for _, op := range []ptx.Op{ptx.OpAdd, ptx.OpSub, ptx.OpMul, ptx.OpFma, ptx.OpDiv, ptx.OpRcp} {
			for _, mode := range modes {
				if l.typ == ptx.F16 || l.typ == ptx.BF16 {
					if mode != ptx.RN || op == ptx.OpDiv || op == ptx.OpRcp {
						continue
					}
				}
				checkOperation(t, l, op, mode)
			}
		}
	}
}

func checkOperation(t *testing.T, l layout, op ptx.Op, mode ptx.Round) {
	f := Lookup(&ptx.Inst{Op: op, Type: l.typ, Round: mode, Src: make([]ptx.Operand, 3)})
	random := rand.New(rand.NewPCG(uint64(op), uint64(mode)))
	for range 2500 {
		a, b, c := l.operand(random), l.operand(random), l.operand(random)
		if random.IntN(4) == 0 { // let the terms nearly cancel
			c = f(a, b, 0, 0) ^ 1<<(l.mantissa+l.exponent) ^ random.Uint64N(4)
			if op == ptx.OpAdd || op == ptx.OpSub {
				b = a ^ 1<<(l.mantissa+l.exponent) ^ random.Uint64N(8)
			}
		}
		if !l.finite(a) || !l.finite(b) || !l.finite(c) {
			continue
		}
		exact := exactly(op, l.rational(a), l.rational(b), l.rational(c))
		if exact == nil || exact.Sign() == 0 {
			continue
		}
		if got, want := f(a, b, c, 0), l.round(exact, mode); got != want {
			t.Fatalf("op %v type %v mode %v: %#x %#x %#x gives %#x, want %#x", op, l.typ, mode, a, b, c, got, want)
		}
	}
}

func (l layout) finite(bits uint64) bool {
	return bits>>l.mantissa&(1<<l.exponent-1) != 1<<l.exponent-1
}

func exactly(op ptx.Op, a, b, c *big.Rat) *big.Rat {
	switch op {
	case ptx.OpAdd:
		return a.Add(a, b)
	case ptx.OpSub:
		return a.Sub(a, b)
	case ptx.OpMul:
		return a.Mul(a, b)
	case ptx.OpFma:
		return a.Add(a.Mul(a, b), c)
	case ptx.OpRcp:
		if a.Sign() == 0 {
			return nil
		}
		return a.Inv(a)
	}
	if b.Sign() == 0 {
		return nil
	}
	return a.Quo(a, b)
}

func TestSquareRoots(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for _, l := range layouts[:2] {
		for _, mode := range []ptx.Round{ptx.RN, ptx.RZ, ptx.RM, ptx.RP} {
			f := Lookup(&ptx.Inst{Op: ptx.OpSqrt, Type: l.typ, Round: mode})
			for range 1500 {
				a := l.operand(random) &^ (1 << (l.mantissa + l.exponent))
				if a == 0 {
					continue
				}
				// 300 bits are sufficient: a root is either rational with half as many bits, or irrational.
				root := new(big.Float).SetPrec(300).SetRat(l.rational(a))
				root.Sqrt(root)
				exact, _ := root.Rat(nil)
				if square := new(big.Rat).Mul(exact, exact); square.Cmp(l.rational(a)) != 0 {
					// An irrational root must not be mistaken for a representable number.
					exact.Add(exact, new(big.Rat).Mul(power(root.MantExp(nil)-280), big.NewRat(int64(l.rational(a).Cmp(square)), 1)))
				}
				if got, want := f(a, 0, 0, 0), l.round(exact, mode); got != want {
					t.Fatalf("sqrt %v mode %v of %#x: got %#x, want %#x", l.typ, mode, a, got, want)
				}
			}
		}
	}
}

func TestExactZeroSums(t *testing.T) {
	for _, l := range layouts[:2] {
		one := l.round(big.NewRat(1, 1), ptx.RN)
		minus := uint64(1) << (l.mantissa + l.exponent)
		for _, test := range []struct {
			mode       ptx.Round
			a, b, want uint64
		}{
			{ptx.RN, one, one | minus, 0},
			{ptx.RM, one, one | minus, minus},
			{ptx.RP, one, one | minus, 0},
			{ptx.RM, 0, 0, 0},
			{ptx.RM, 0, minus, minus},
			{ptx.RN, 0, minus, 0},
			{ptx.RN, minus, minus, minus},
		} {
			f := Lookup(&ptx.Inst{Op: ptx.OpAdd, Type: l.typ, Round: test.mode})
			if got := f(test.a, test.b, 0, 0); got != test.want {
				t.Errorf("%v mode %v: %#x + %#x = %#x, want %#x", l.typ, test.mode, test.a, test.b, got, test.want)
			}
			fma := Lookup(&ptx.Inst{Op: ptx.OpFma, Type: l.typ, Round: test.mode})
			if got := fma(test.a, one, test.b, 0); got != test.want {
				t.Errorf("%v mode %v: fma %#x + %#x = %#x, want %#x", l.typ, test.mode, test.a, test.b, got, test.want)
			}
		}
	}
}

func TestConversionsBetweenFloats(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for _, from := range layouts {
		for _, to := range layouts {
			for _, mode := range []ptx.Round{ptx.RN, ptx.RZ, ptx.RM, ptx.RP} {
				f := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: to.typ, SrcType: from.typ, Round: mode})
				for range 800 {
					a := from.operand(random)
					exact := from.rational(a)
					if exact.Sign() == 0 {
						continue
					}
					if got, want := f(a, 0, 0, 0), to.round(exact, mode); got != want {
						t.Fatalf("cvt %v from %v mode %v of %#x: got %#x, want %#x", to.typ, from.typ, mode, a, got, want)
					}
				}
			}
		}
	}
}

func TestConversionsFromIntegers(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	for _, from := range []ptx.Type{ptx.U8, ptx.S8, ptx.U16, ptx.S16, ptx.U32, ptx.S32, ptx.U64, ptx.S64} {
		for _, to := range layouts {
			for _, mode := range []ptx.Round{ptx.RN, ptx.RZ, ptx.RM, ptx.RP} {
				f := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: to.typ, SrcType: from, Round: mode})
				for range 500 {
					raw := random.Uint64() >> random.UintN(64)
					if random.IntN(3) == 0 {
						raw |= 1 << 63 >> random.UintN(64)
					}
					exact := integer(from, raw)
					if exact.Sign() == 0 {
						continue
					}
					if got, want := f(raw, 0, 0, 0), to.round(exact, mode); got != want {
						t.Fatalf("cvt %v from %v mode %v of %#x: got %#x, want %#x", to.typ, from, mode, raw, got, want)
					}
				}
			}
		}
	}
}

// integer returns the value of an integer type's bits.
func integer(t ptx.Type, raw uint64) *big.Rat {
	n := new(big.Int).SetUint64(raw)
	bits := uint(t.Bits())
	n.And(n, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), bits), big.NewInt(1)))
	if t.IsSigned() && n.Bit(int(bits)-1) == 1 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), bits))
	}
	return new(big.Rat).SetInt(n)
}

func TestConversionsToIntegers(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for _, from := range layouts {
		for _, to := range []ptx.Type{ptx.U8, ptx.S8, ptx.U16, ptx.S16, ptx.U32, ptx.S32, ptx.U64, ptx.S64} {
			for _, mode := range []ptx.Round{ptx.RNI, ptx.RZI, ptx.RMI, ptx.RPI} {
				f := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: to, SrcType: from.typ, Round: mode})
				for range 500 {
					a := from.operand(random)
					want := toInteger(from.rational(a), to, mode)
					mask := ^uint64(0) >> (64 - to.Bits())
					if got := f(a, 0, 0, 0); got&mask != want&mask {
						t.Fatalf("cvt %v from %v mode %v of %#x: got %#x, want %#x", to, from.typ, mode, a, got, want)
					}
				}
			}
		}
	}
}

func toInteger(x *big.Rat, to ptx.Type, mode ptx.Round) uint64 {
	floor := new(big.Int).Div(x.Num(), x.Denom()) // Euclidean: rounds down for a positive divisor
	rest := new(big.Rat).Sub(x, new(big.Rat).SetInt(floor))
	up := false
	switch cmp := rest.Cmp(big.NewRat(1, 2)); mode {
	case ptx.RNI:
		up = cmp > 0 || cmp == 0 && floor.Bit(0) == 1
	case ptx.RPI:
		up = rest.Sign() > 0
	case ptx.RZI:
		up = rest.Sign() > 0 && x.Sign() < 0
	}
	if up {
		floor.Add(floor, big.NewInt(1))
	}
	bits := uint(to.Bits())
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), bits)
	if to.IsSigned() {
		low.Neg(new(big.Int).Lsh(big.NewInt(1), bits-1))
		high.Lsh(big.NewInt(1), bits-1)
	}
	high.Sub(high, big.NewInt(1))
	if floor.Cmp(low) < 0 {
		floor = low
	}
	if floor.Cmp(high) > 0 {
		floor = high
	}
	if floor.Sign() < 0 {
		return -new(big.Int).Neg(floor).Uint64()
	}
	return floor.Uint64()
}

func TestNaNToInteger(t *testing.T) {
	for _, test := range []struct {
		from, to ptx.Type
		want     uint64
	}{
		{ptx.F32, ptx.S32, 0},
		{ptx.F32, ptx.U32, 0},
		{ptx.F32, ptx.S64, 1 << 63},
		{ptx.F64, ptx.S32, 1 << 31},
		{ptx.F64, ptx.U64, 1 << 63},
		{ptx.F16, ptx.S16, 0},
	} {
		nan := map[ptx.Type]uint64{ptx.F32: 0x7fc00000, ptx.F64: math.Float64bits(math.NaN()), ptx.F16: 0x7e00}[test.from]
		f := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: test.to, SrcType: test.from, Round: ptx.RZI})
		if got := f(nan, 0, 0, 0) & (^uint64(0) >> (64 - test.to.Bits())); got != test.want {
			t.Errorf("NaN of %v as %v: got %#x, want %#x", test.from, test.to, got, test.want)
		}
	}
}

func TestMinMaxRules(t *testing.T) {
	const nan, minusZero, one, minusTwo = 0x7fc00000, 0x80000000, 0x3f800000, 0xc0000000
	for _, test := range []struct {
		op    ptx.Op
		flags ptx.Flag
		a, b  uint64
		want  uint64
	}{
		{ptx.OpMin, 0, nan, one, one},
		{ptx.OpMin, 0, one, nan, one},
		{ptx.OpMin, 0, nan, nan, 0x7fffffff},
		{ptx.OpMin, ptx.NaN, nan, one, 0x7fffffff},
		{ptx.OpMin, 0, 0, minusZero, minusZero},
		{ptx.OpMax, 0, minusZero, 0, 0},
		{ptx.OpMax, ptx.XorSign, minusTwo, one, 0xc0000000},
		{ptx.OpMin, ptx.XorSign, minusTwo, one, 0xbf800000},
		{ptx.OpMax, 0, 1, minusZero, 1},
		{ptx.OpMax, ptx.FTZ, 1, minusZero, 0},
	} {
		f := Lookup(&ptx.Inst{Op: test.op, Type: ptx.F32, Flags: test.flags, Src: make([]ptx.Operand, 2)})
		if got := f(test.a, test.b, 0, 0); got != test.want {
			t.Errorf("%v flags %v of %#x, %#x: got %#x, want %#x", test.op, test.flags, test.a, test.b, got, test.want)
		}
	}
}
