package simt_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// narrow is float16 or bfloat16 by brute force: rounding searches all numbers of the format.
type narrow struct {
	name     string
	infinity uint32
	decode   func(bits uint64) float64
}

var narrows = []narrow{{"f16", 0x7c00, small(10, 5)}, {"bf16", 0x7f80, small(7, 8)}}

const narrowNaN = 0x7fff

// value returns the number of given bits, including infinities and NaN.
func (n narrow) value(bits uint32) float64 {
	switch size := bits & 0x7fff; {
	case size > n.infinity:
		return math.NaN()
	case size == n.infinity:
		return math.Inf(1 - int(bits>>15)*2)
	}
	return n.decode(uint64(bits))
}

// exact returns a*b + c without rounding.
func exact(a, b, c float64) *big.Float {
	product := new(big.Float).SetPrec(600).Mul(big.NewFloat(a), big.NewFloat(b))
	return product.Add(product, big.NewFloat(c))
}

// nearest returns the bits of the number nearest to x, ties to even. Infinity counts as the next
// power of two.
func (n narrow) nearest(x *big.Float) uint32 {
	size := new(big.Float).Abs(x)
	low, high := uint32(0), n.infinity
	for low < high { // the largest number that is not above x
		middle := (low + high + 1) / 2
		if big.NewFloat(n.decode(uint64(middle))).Cmp(size) <= 0 {
			low = middle
		} else {
			high = middle - 1
		}
	}
	if low < n.infinity {
		sum := new(
			big.Float,
		).SetPrec(
			600,
		).Add(
			big.NewFloat(n.decode(uint64(low))),
			big.NewFloat(n.decode(uint64(low+1))),
		)
		if c := sum.Quo(sum, big.NewFloat(2)).Cmp(size); c < 0 || c == 0 && low&1 == 1 {
			low++
		}
	}
	if x.Signbit() {
		low |= 0x8000
	}
	return low
}

// fma returns a*b+c with the modifiers of an opcode.
func (n narrow) fma(modifiers string, a, b, c uint32) uint32 {
	flush := func(bits uint32) uint32 {
		if strings.Contains(modifiers, ".ftz") && bits&0x7fff < 0x400 {
			return bits & 0x8000
		}
		return bits
	}
	x, y, z := n.value(flush(a)), n.value(flush(b)), n.value(flush(c))
	float := x*y + z // correct for infinities, NaN, and the sign of an exact zero
	var result uint32
	switch {
	case float != float:
		result = narrowNaN
	case math.IsInf(float, 0):
		result = n.infinity | uint32(math.Float64bits(float)>>63<<15)
	default:
		e := exact(x, y, z)
		if result = n.nearest(e); e.Sign() == 0 {
			result = uint32(math.Float64bits(float) >> 63 << 15)
		}
	}
	result = flush(result)
	switch v := n.value(result); {
	case strings.Contains(modifiers, ".sat") && !(v > 0):
		return 0
	case strings.Contains(modifiers, ".sat") && v > 1:
		return n.nearest(big.NewFloat(1))
	case strings.Contains(modifiers, ".relu") && v <= 0:
		return 0
	}
	return result
}

// words returns pairs of halves of all kinds, with sizes whose sums and products round and cancel.
func (n narrow) words(count int) [][3]uint32 {
	r := rand.New(rand.NewPCG(3, uint64(n.infinity)))
	one := n.nearest(big.NewFloat(1))
	half := func() uint32 {
		switch r.IntN(4) {
		case 0:
			return r.Uint32() & 0xffff
		case 1: // subnormal, or special
			return []uint32{0, 1, 0x3ff, 0x400, n.infinity, n.infinity - 1, narrowNaN, one}[r.IntN(8)] | r.Uint32()&0x8000
		}
		return one + r.Uint32N(0x800) - 0x400 | r.Uint32()&0x8000
	}
	inputs := make([][3]uint32, count)
	for i := range inputs {
		for k := range inputs[i] {
			inputs[i][k] = half() | half()<<16
		}
	}
	return inputs
}

// both returns the PTX of an operation on both halves: packed, and one half after the other.
func both(opcode, kind, operands string) []string {
	one := strings.NewReplacer("y", "%h7", "a", "%h1", "b", "%h3", "c", "%h5").Replace(operands)
	two := strings.NewReplacer("y", "%h8", "a", "%h2", "b", "%h4", "c", "%h6").Replace(operands)
	packed := strings.NewReplacer("y", "%y", "a", "%a", "b", "%b", "c", "%c").Replace(operands)
	return []string{
		opcode + "." + kind + "x2 " + packed + ";",
		"mov.b32 {%h1, %h2}, %a;\nmov.b32 {%h3, %h4}, %b;\nmov.b32 {%h5, %h6}, %c;\n" +
			opcode + "." + kind + " " + one + ";\n" + opcode + "." + kind + " " + two + ";\nmov.b32 %y, {%h7, %h8};",
	}
}

// onHalves applies a function to both halves.
func onHalves(f func(a, b, c uint32) uint32) func(a, b, c uint32) uint32 {
	return func(a, b, c uint32) uint32 {
		return f(a&0xffff, b&0xffff, c&0xffff) | f(a>>16, b>>16, c>>16)<<16
	}
}

func TestHalfArithmetic(t *testing.T) {
	for _, n := range narrows {
		one := n.nearest(big.NewFloat(1))
		modifiers := []string{".rn"}
		if n.name == "f16" {
			modifiers = append(modifiers, ".rn.sat", ".rn.ftz", ".rn.ftz.sat")
		}
		for _, m := range modifiers {
			operations := map[string]func(a, b, c uint32) uint32{
				"add": func(a, b, _ uint32) uint32 { return n.fma(m, a, one, b) },
				"sub": func(a, b, _ uint32) uint32 {
					if n.value(b) == n.value(b) {
						b ^= 0x8000
					}
					return n.fma(m, a, one, b)
				},
				// Adding a zero with the product's sign does not change the product.
				"mul": func(a, b, _ uint32) uint32 { return n.fma(m, a, b, (a^b)&0x8000) },
			}
			for name, want := range operations {
				for _, text := range both(name+m, n.name, "y, a, b") {
					wantResults(t, text, n.words(1024), onHalves(want))
				}
			}
		}
		for _, m := range append(modifiers, ".rn.relu") {
			for _, text := range both("fma"+m, n.name, "y, a, b, c") {
				wantResults(t, text, n.words(2048), onHalves(func(a, b, c uint32) uint32 { return n.fma(m, a, b, c) }))
			}
		}
	}
}

func TestHalfExtremes(t *testing.T) {
	for _, n := range narrows {
		for name, sign := range map[string]float64{"min": 1, "max": -1} {
			for _, modifiers := range []string{"", ".NaN", ".xorsign.abs"} {
				want := func(a, b, _ uint32) uint32 {
					signs := (a ^ b) & 0x8000
					if modifiers == ".xorsign.abs" {
						a, b = a&0x7fff, b&0x7fff
					} else {
						signs = 0
					}
					x, y := n.value(a), n.value(b)
					first := x*sign < y*sign || x == y && (math.Signbit(x) == (sign > 0))
					switch {
					case x != x && y != y, modifiers == ".NaN" && (x != x || y != y):
						return narrowNaN
					case x != x:
						return b | signs
					case y != y || first:
						return a | signs
					}
					return b | signs
				}
				for _, text := range both(name+modifiers, n.name, "y, a, b") {
					wantResults(t, text, n.words(1024), onHalves(want))
				}
			}
		}
		for name, want := range map[string]func(a uint32) uint32{
			"neg": func(a uint32) uint32 { return a ^ 0x8000 },
			"abs": func(a uint32) uint32 { return a &^ 0x8000 },
		} {
			for _, text := range both(name, n.name, "y, a") {
				wantResults(t, text, n.words(256), onHalves(func(a, _, _ uint32) uint32 { return want(a) }))
			}
		}
	}
}

func TestHalfComparisons(t *testing.T) {
	for _, n := range narrows {
		for name, holds := range map[string]func(x, y float64) bool{
			"lt": func(x, y float64) bool { return x < y }, "geu": func(x, y float64) bool { return !(x < y) },
			"eq": func(x, y float64) bool { return x == y }, "nan": func(x, y float64) bool { return x != x || y != y },
		} {
			text := "setp." + name + "." + n.name + "x2 %p1|%p2, %a, %b;\n" +
				"selp.u32 %y, 1, 0, %p1;\nselp.u32 %c, 65536, 0, %p2;\nadd.u32 %y, %y, %c;"
			wantResults(t, text, n.words(1024), onHalves(func(a, b, _ uint32) uint32 {
				if holds(n.value(a), n.value(b)) {
					return 1
				}
				return 0
			}))
		}
	}
}
