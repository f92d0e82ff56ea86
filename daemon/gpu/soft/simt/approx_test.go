package simt_test

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// approximation is an approximate instruction with the error bound that the ISA gives, relative to
// the exact result or absolute.
type approximation struct {
	name     string
	low, up  float64 // the range of arguments that the bound holds for, or of their base-2 logarithm if spread
	spread   bool
	want     func(x float64) float64 // computed differently from the obvious function
	relative float64
	absolute float64
	special  map[float64]float64
}

var (
	infinity = math.Inf(1)
	minusInf = math.Inf(-1)
	nan      = math.NaN()
	minus0   = math.Copysign(0, -1)
)

// part computes sine and cosine through the exponential function.
func part(x float64) complex128 { return cmplx.Exp(complex(0, x)) }

var approximations = []approximation{
	{
		"ex2.approx", -126, 127.9, false, func(x float64) float64 { return math.Pow(2, x) }, math.Exp2(-22.5), 0,
		map[float64]float64{infinity: infinity, minusInf: 0, 0: 1, minus0: 1, nan: nan, 200: infinity, -200: 0},
	},
	{
		"lg2.approx", 0.5, 2, false, func(x float64) float64 { return math.Log(x) / math.Ln2 }, 0, math.Exp2(-22),
		map[float64]float64{infinity: infinity, 0: minusInf, minus0: minusInf, -1: nan, minusInf: nan, nan: nan, 1: 0},
	},
	{
		"lg2.approx",
		-126,
		127,
		true,
		func(x float64) float64 { return math.Log(x) / math.Ln2 },
		math.Exp2(-22),
		math.Exp2(-22),
		nil,
	},
	{
		"sin.approx", -2 * math.Pi, 2 * math.Pi, false, func(x float64) float64 { return imag(part(x)) }, 0, math.Exp2(-20.5),
		map[float64]float64{infinity: nan, minusInf: nan, nan: nan, 0: 0, minus0: minus0},
	},
	{
		"sin.approx",
		-100 * math.Pi,
		100 * math.Pi,
		false,
		func(x float64) float64 { return imag(part(x)) },
		0,
		math.Exp2(-14.7),
		nil,
	},
	{
		"cos.approx", -2 * math.Pi, 2 * math.Pi, false, func(x float64) float64 { return real(part(x)) }, 0, math.Exp2(-20.5),
		map[float64]float64{infinity: nan, minusInf: nan, nan: nan, 0: 1, minus0: 1},
	},
	{
		"cos.approx",
		-100 * math.Pi,
		100 * math.Pi,
		false,
		func(x float64) float64 { return real(part(x)) },
		0,
		math.Exp2(-14.7),
		nil,
	},
	{
		"rcp.approx", -125, 125, true, func(x float64) float64 { return math.Pow(x, -1) }, math.Exp2(-23), 0,
		map[float64]float64{infinity: 0, minusInf: minus0, 0: infinity, minus0: minusInf, nan: nan, -4: -0.25},
	},
	{
		"rsqrt.approx", -126, 127, true, func(x float64) float64 { return math.Pow(x, -0.5) }, math.Exp2(-22.9), 0,
		map[float64]float64{infinity: 0, minusInf: nan, 0: infinity, minus0: minusInf, nan: nan, -4: nan, 4: 0.5},
	},
	{
		"sqrt.approx", -126, 127, true, func(x float64) float64 { return math.Pow(x, 0.5) }, math.Exp2(-23), 0,
		map[float64]float64{infinity: infinity, minusInf: nan, 0: 0, minus0: minus0, nan: nan, -4: nan, 4: 2},
	},
	{
		"tanh.approx", -9, 9, false,
		func(x float64) float64 { e := math.Expm1(2 * x); return e / (e + 2) }, math.Exp2(-11), 0,
		map[float64]float64{infinity: 1, minusInf: -1, nan: nan, 0: 0, minus0: minus0},
	},
}

func (a *approximation) arguments(r *rand.Rand) (inputs [][3]uint32) {
	for range 2048 {
		x := a.low + r.Float64()*(a.up-a.low)
		if a.spread {
			x = math.Exp2(x)
		}
		inputs = append(inputs, [3]uint32{math.Float32bits(float32(x))})
	}
	return inputs
}

func TestApproximations(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, a := range approximations {
		for _, ftz := range []string{"", ".ftz"} {
			if a.name == "tanh.approx" && ftz != "" {
				continue
			}
			t.Run(a.name+ftz, func(t *testing.T) { a.test(t, a.name+ftz+".f32 %y, %a;", r) })
		}
	}
}

func (a *approximation) test(t *testing.T, text string, r *rand.Rand) {
	inputs := a.arguments(r)
	for i, bits := range each(t, text, inputs) {
		x, got := float64(math.Float32frombits(inputs[i][0])), float64(math.Float32frombits(bits))
		want := a.want(x)
		if math.Abs(got-want) > math.Abs(want)*a.relative+a.absolute {
			t.Fatalf("%s of %v: got %v, want %v", text, x, got, want)
		}
	}
	special := make([][3]uint32, 64)
	want := make([]float64, 64)
	n := 0
	for x, y := range a.special {
		special[n][0], want[n] = math.Float32bits(float32(x)), y
		n++
	}
	for i, bits := range each(t, text, special)[:n] {
		got := float64(math.Float32frombits(bits))
		if got != want[i] && !(got != got && want[i] != want[i]) ||
			math.Signbit(got) != math.Signbit(want[i]) && got == got {
			t.Errorf("%s of %v: got %v, want %v", text, math.Float32frombits(special[i][0]), got, want[i])
		}
	}
}

// TestApproximateDivision allows an error of at most two units in the last place.
func TestApproximateDivision(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	inputs := make([][3]uint32, 2048)
	for i := range inputs {
		for k := range 2 {
			x := math.Ldexp(r.Float64()+1, r.IntN(100)-50)
			inputs[i][k] = math.Float32bits(float32(math.Copysign(x, r.Float64()-0.5)))
		}
	}
	for _, text := range []string{"div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"} {
		for i, bits := range each(t, text+" %y, %a, %b;", inputs) {
			a, b := math.Float32frombits(inputs[i][0]), math.Float32frombits(inputs[i][1])
			want := float64(a) / float64(b)
			if got := float64(math.Float32frombits(bits)); math.Abs(got-want) > 2*math.Abs(want)*math.Exp2(-23) {
				t.Fatalf("%s: %v / %v: got %v, want %v", text, a, b, got, want)
			}
		}
	}
}

func TestHalfApproximations(t *testing.T) {
	for _, n := range narrows {
		for name, f := range map[string]struct {
			want     func(float64) float64
			relative float64
		}{
			"ex2.approx": {
				func(x float64) float64 { return math.Pow(2, x) },
				map[string]float64{"f16": math.Exp2(-9.9), "bf16": math.Exp2(-7)}[n.name],
			},
			"tanh.approx": {
				func(x float64) float64 { e := math.Expm1(2 * x); return e / (e + 2) },
				map[string]float64{"f16": math.Exp2(-10.987), "bf16": math.Exp2(-8)}[n.name],
			},
		} {
			if name == "ex2.approx" && n.name == "bf16" {
				name += ".ftz"
			}
			for _, text := range both(name, n.name, "y, a") {
				inputs := n.words(512)
				for i, bits := range each(t, text, inputs) {
					for shift := 0; shift < 32; shift += 16 {
						x, got := n.value(inputs[i][0]>>shift&0xffff), n.value(bits>>shift&0xffff)
						want := f.want(x)
						if x != x || math.Abs(x) > 9 {
							continue
						}
						// A subnormal result is accurate only to its last place.
						if math.Abs(got-want) > math.Abs(want)*f.relative+n.decode(1) {
							t.Fatalf("%s of %v: got %v, want %v", text, x, got, want)
						}
					}
				}
			}
		}
	}
}

func TestApproximateDoubles(t *testing.T) {
	// The inputs are the upper halves of doubles, as are the results: of rcp and rsqrt with .ftz the
	// lower half is zero.
	r := rand.New(rand.NewPCG(6, 7))
	inputs := make([][3]uint32, 1024)
	for i := range inputs {
		inputs[i] = [3]uint32{r.Uint32() &^ (1 << 31), r.Uint32()}
	}
	special := []uint32{0, 1 << 31, 0x7ff00000, 0x7ff80000, 1, 0x000fffff, 0x7fd00000, 0x3ff00000}
	for i, high := range special {
		inputs[i] = [3]uint32{high, 0}
	}
	for name, f := range map[string]func(float64) float64{
		"rcp":   func(x float64) float64 { return 1 / x },
		"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	} {
		const text = "mov.b64 %fd1, {%b, %a};\n"
		high := each(t, text+name+".approx.ftz.f64 %fd2, %fd1;\nmov.b64 {_, %y}, %fd2;", inputs)
		low := each(t, text+name+".approx.ftz.f64 %fd2, %fd1;\nmov.b64 {%y, _}, %fd2;", inputs)
		for i, in := range inputs {
			bits := uint64(in[0]) << 32 // the lower half is ignored
			if in[0]&0x7ff00000 == 0 {
				bits = uint64(in[0]&(1<<31)) << 32
			}
			x := math.Float64frombits(bits)
			want := f(x)
			if name == "rsqrt" && x == 0 {
				want = math.Copysign(infinity, x)
			}
			if math.Abs(want) < math.Ldexp(1, -1022) {
				want = math.Copysign(0, want)
			}
			got := math.Float64frombits(uint64(high[i]) << 32)
			if want != want {
				if high[i] != 0x7fffffff {
					t.Errorf("%s of NaN: upper half is %#x, want a NaN", name, high[i])
				}
				continue
			}
			if low[i] != 0 || got != want && math.Abs(got-want) > math.Abs(want)*math.Exp2(-20) ||
				math.Signbit(got) != math.Signbit(want) {
				t.Errorf("%s.approx.ftz.f64 of %v: got %v with lower half %#x, want %v", name, x, got, low[i], want)
			}
		}
	}
}
