package simt_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The oracle for mma: element positions by the formulas of the ISA, and a textbook multiplication.
// g is the lane's group, lane/4, and t its index in the group, lane%4.

// at returns the row and the column of element i.
type at func(g, t, i int) (row, column int)

func upper(first bool) int {
	if first {
		return 0
	}
	return 8
}

// matrixCase is one form of mma. The types are those of d and c, a, and b.
type matrixCase struct {
	shape, d, a, b    string
	rows, inner       int
	placeA            at
	rowB              func(t, i int) int
	elementsA, elemsB int
	satfinite         bool
}

func placeA16(g, t, i int) (int, int) {
	return g + upper(i < 2 || i >= 4 && i < 6), t*2 + i&1 + upper(i < 4)
}

func placeA8(g, t, i int) (int, int) { return g + upper(i < 2), t*2 + i&1 }

func placeBytes(g, t, i int) (int, int) {
	return g + upper(i < 4 || i >= 8 && i < 12), t*4 + i&3 + 2*upper(i < 8)
}

func placeWords(g, t, i int) (int, int) { return g + upper(i%2 == 0), t + i/2*4 }

func rowHalves(t, i int) int { return t*2 + i&1 + upper(i < 2) }
func rowBytes(t, i int) int  { return t*4 + i&3 + 2*upper(i < 4) }
func rowWords(t, i int) int  { return t + 4*i }

var matrixCases = []matrixCase{
	{"m16n8k8", "f32", "f16", "f16", 16, 8, placeA8, rowHalves, 4, 2, false},
	{"m16n8k8", "f16", "f16", "f16", 16, 8, placeA8, rowHalves, 4, 2, false},
	{"m16n8k16", "f32", "f16", "f16", 16, 16, placeA16, rowHalves, 8, 4, false},
	{"m16n8k16", "f16", "f16", "f16", 16, 16, placeA16, rowHalves, 8, 4, false},
	{"m16n8k8", "f32", "bf16", "bf16", 16, 8, placeA8, rowHalves, 4, 2, false},
	{"m16n8k16", "f32", "bf16", "bf16", 16, 16, placeA16, rowHalves, 8, 4, false},
	{"m16n8k4", "f32", "tf32", "tf32", 16, 4, placeWords, rowWords, 2, 1, false},
	{"m16n8k8", "f32", "tf32", "tf32", 16, 8, placeWords, rowWords, 4, 2, false},
	{"m16n8k4", "f64", "f64", "f64", 16, 4, placeWords, rowWords, 2, 1, false},
	{"m16n8k8", "f64", "f64", "f64", 16, 8, placeWords, rowWords, 4, 2, false},
	{"m16n8k16", "f64", "f64", "f64", 16, 16, placeWords, rowWords, 8, 4, false},
	{"m8n8k4", "f64", "f64", "f64", 8, 4, func(g, t, _ int) (int, int) { return g, t }, rowWords, 1, 1, false},
	{"m8n8k16", "s32", "s8", "u8", 8, 16, placeBytes, rowBytes, 4, 4, false},
	{"m16n8k16", "s32", "u8", "s8", 16, 16, placeBytes, rowBytes, 8, 4, false},
	{"m16n8k16", "s32", "s8", "s8", 16, 16, placeBytes, rowBytes, 8, 4, true},
	{"m16n8k32", "s32", "s8", "s8", 16, 32, placeBytes, rowBytes, 16, 8, false},
	{"m16n8k32", "s32", "u8", "u8", 16, 32, placeBytes, rowBytes, 16, 8, true},
}

func (c *matrixCase) opcode() string {
	satfinite := ""
	if c.satfinite {
		satfinite = ".satfinite"
	}
	return fmt.Sprintf("mma.sync.aligned.%s.row.col%s.%s.%s.%s.%s", c.shape, satfinite, c.d, c.a, c.b, c.d)
}

// element is one number type: its size in memory, its value, and the register that holds it.
type element struct {
	bytes  int
	class  string
	decode func(bits uint64) float64
}

// small returns the decoder of a float format of less than 32 bits.
func small(fraction, exponent int) func(uint64) float64 {
	return func(bits uint64) float64 {
		e := int(bits>>fraction) & (1<<exponent - 1)
		f := float64(bits&(1<<fraction-1)) / float64(int(1)<<fraction)
		bias := 1<<(exponent-1) - 1
		x := math.Ldexp(1+f, e-bias)
		if e == 0 {
			x = math.Ldexp(f, 1-bias)
		}
		if bits>>(fraction+exponent)&1 == 1 {
			return -x
		}
		return x
	}
}

var elements = map[string]element{
	"f16":  {2, "b32", small(10, 5)},
	"bf16": {2, "b32", small(7, 8)},
	"tf32": {4, "b32", func(bits uint64) float64 { return small(10, 8)(bits >> 13) }},
	"f32":  {4, "f32", func(bits uint64) float64 { return float64(math.Float32frombits(uint32(bits))) }},
	"f64":  {8, "f64", math.Float64frombits},
	"s8":   {1, "b32", func(bits uint64) float64 { return float64(int8(bits)) }},
	"u8":   {1, "b32", func(bits uint64) float64 { return float64(uint8(bits)) }},
	"s32":  {4, "b32", func(bits uint64) float64 { return float64(int32(bits)) }},
}

// random returns the bits of a random number within the type's precision, or of a small integer,
// whose sums are exact.
func random(r *rand.Rand, name string, integers bool) uint64 {
	n := r.IntN(17) - 8
	scale := r.Float64()*4 - 2
	switch name {
	case "s8", "u8":
		return uint64(r.Uint32() & 0xff)
	case "s32":
		if integers {
			return uint64(uint32(n))
		}
		return uint64(r.Uint32() | 0x7ff00000) // sums may exceed 32 bits
	case "f64":
		if integers {
			return math.Float64bits(float64(n))
		}
		return math.Float64bits(scale)
	case "f32", "tf32", "bf16":
		bits := uint64(math.Float32bits(float32(scale)))
		if integers {
			bits = uint64(math.Float32bits(float32(n)))
		}
		if name == "bf16" {
			bits >>= 16
		}
		return bits
	}
	if integers {
		for bits := range uint64(1 << 15) {
			if elements["f16"].decode(bits) == math.Abs(float64(n)) {
				return bits | uint64(n)>>63<<15
			}
		}
	}
	return uint64(r.Uint32()) & 0xbfff // below 2
}

// fragments is a matrix in the form that lanes hold it: the bytes of each lane in turn, and the
// values.
type fragments struct {
	perLane int
	memory  [32][]byte
	value   map[[2]int]float64
}

func makeFragments(name string, count int, place at, next func() uint64) *fragments {
	e := elements[name]
	f := &fragments{perLane: count * e.bytes, value: map[[2]int]float64{}}
	for lane := range f.memory {
		for i := range count {
			bits := next()
			var raw [8]byte
			binary.LittleEndian.PutUint64(raw[:], bits)
			f.memory[lane] = append(f.memory[lane], raw[:e.bytes]...)
			row, column := place(lane/4, lane%4, i)
			f.value[[2]int{row, column}] = e.decode(bits)
		}
	}
	return f
}

// placeC places c and d of every type.
func placeC(g, t, i int) (int, int) { return g + upper(i < 2), t*2 + i&1 }

// kernelText returns a kernel that loads each lane's registers, which are 256 bytes apart,
// multiplies, and stores d at offset 192.
func (c *matrixCase) kernelText(bytes [4]int) string {
	var text, operands strings.Builder
	text.WriteString("mul.wide.u32 %rd2, %r1, 256;\nadd.s64 %rd1, %rd1, %rd2;\n")
	offset := [4]int{192, 0, 64, 128}
	for m, name := range []string{c.d, c.a, c.b, c.d} {
		e := elements[name]
		size := max(e.bytes, 4)
		var list []string
		for i := range bytes[m] / size {
			register := fmt.Sprintf("%%m%d_%d", m, i)
			list = append(list, register)
			fmt.Fprintf(&text, ".reg .%s %s;\n", e.class, register)
			if m > 0 {
				fmt.Fprintf(&text, "ld.global.%s %s, [%%rd1+%d];\n", e.class, register, offset[m]+i*size)
			}
		}
		if m > 0 {
			operands.WriteString(", ")
		}
		operands.WriteString("{" + strings.Join(list, ", ") + "}")
	}
	text.WriteString(c.opcode() + " " + operands.String() + ";\n")
	size := max(elements[c.d].bytes, 4)
	for i := range bytes[0] / size {
		fmt.Fprintf(&text, "st.global.%s [%%rd1+%d], %%m0_%d;\n", elements[c.d].class, 192+i*size, i)
	}
	return body(text.String() + "ret;")
}

func TestMatrixMultiply(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range matrixCases {
		for _, integers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/integers=%t", c.opcode(), integers), func(t *testing.T) { c.test(t, r, integers) })
		}
	}
}

func (c *matrixCase) test(t *testing.T, r *rand.Rand, integers bool) {
	column := func(g, t, i int) (int, int) { return c.rowB(t, i), g }
	a := makeFragments(c.a, c.elementsA, c.placeA, func() uint64 { return random(r, c.a, integers) })
	b := makeFragments(c.b, c.elemsB, column, func() uint64 { return random(r, c.b, integers) })
	sum := makeFragments(c.d, c.rows/4, placeC, func() uint64 { return random(r, c.d, integers) })
	if len(a.value) != c.rows*c.inner || len(b.value) != 8*c.inner || len(sum.value) != c.rows*8 {
		t.Fatalf("the formulas place %d, %d and %d elements", len(a.value), len(b.value), len(sum.value))
	}
	m := newMachine(t)
	memory := make([]byte, 32*256)
	for lane := range 32 {
		copy(memory[256*lane:], a.memory[lane])
		copy(memory[256*lane+64:], b.memory[lane])
		copy(memory[256*lane+128:], sum.memory[lane])
	}
	text := c.kernelText([4]int{sum.perLane, a.perLane, b.perLane, sum.perLane})
	out := m.alloc(uint64(len(memory)))
	if _, err := m.memory.WriteAt(memory, int64(out)); err != nil {
		t.Fatal(err)
	}
	m.start(text, out, 32)
	if _, err := m.memory.ReadAt(memory, int64(out)); err != nil {
		t.Fatal(err)
	}
	next, lane := 0, 0
	e := elements[c.d]
	got := makeFragments(c.d, c.rows/4, placeC, func() uint64 {
		var raw [8]byte
		copy(raw[:e.bytes], memory[256*lane+192+next*e.bytes:])
		if next++; next == c.rows/4 {
			next, lane = 0, lane+1
		}
		return binary.LittleEndian.Uint64(raw[:])
	})
	for place, x := range got.value {
		want, size := sum.value[place], math.Abs(sum.value[place])
		for k := range c.inner {
			product := a.value[[2]int{place[0], k}] * b.value[[2]int{k, place[1]}]
			want, size = want+product, size+math.Abs(product)
		}
		if !c.close(x, want, size, integers) {
			t.Fatalf("row %d, column %d: got %v, want %v", place[0], place[1], x, want)
		}
	}
}

// close compares a result with the exact one. Floats may differ by the rounding error of an
// accumulation.
func (c *matrixCase) close(got, want, size float64, integers bool) bool {
	switch {
	case c.d == "s32" && c.satfinite:
		want = max(math.MinInt32, min(math.MaxInt32, want))
	case c.d == "s32":
		want = float64(int32(int64(want)))
	case integers:
	case c.d == "f16":
		return math.Abs(got-want) <= size*math.Ldexp(1, -10)
	case c.d == "f32":
		return math.Abs(got-want) <= size*math.Ldexp(1, -22)
	default:
		return math.Abs(got-want) <= size*math.Ldexp(1, -50)
	}
	return got == want
}
