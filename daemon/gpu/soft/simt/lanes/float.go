package lanes

import (
	"math"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
)

func addF32(d, a, b, c *V32) {
	for i := range d {
		d[i] = canonical(math.Float32frombits(a[i]) + math.Float32frombits(b[i]))
	}
}

// subF32 sets d to a - b, with a canonical NaN.
func subF32(d, a, b, c *V32) {
	for i := range d {
		d[i] = canonical(math.Float32frombits(a[i]) - math.Float32frombits(b[i]))
	}
}

// mulF32 sets d to a * b, with a canonical NaN.
func mulF32(d, a, b, c *V32) {
	for i := range d {
		d[i] = canonical(math.Float32frombits(a[i]) * math.Float32frombits(b[i]))
	}
}

// canonical returns the bits of x. All NaNs become the one that GPUs produce.
func canonical(x float32) uint32 {
	if x != x {
		return 0x7fffffff
	}
	return math.Float32bits(x)
}

// fmaF32 adds in float64, where the product is exact. The result is correct unless the sum is
// halfway between two float32 or outside their normal range: then rounding twice could differ from
// rounding once, and package arith computes the lane.
func fmaF32(d, a, b, c *V32) {
	for i := range d {
		product := float64(math.Float32frombits(a[i])) * float64(math.Float32frombits(b[i]))
		sum := product + float64(math.Float32frombits(c[i]))
		bits := math.Float64bits(sum)
		if bits&0x1fffffff == 0x10000000 || (bits>>52&0x7ff)-(1023-126) > 252 {
			d[i] = arith.Fma32(a[i], b[i], c[i])
			continue
		}
		d[i] = math.Float32bits(float32(sum))
	}
}

// minF32 sets d to the smaller of a and b: a number rather than a NaN, and -0 rather than +0.
func minF32(d, a, b, c *V32) {
	for i := range d {
		x, y := math.Float32frombits(a[i]), math.Float32frombits(b[i])
		switch {
		case x < y:
			d[i] = a[i]
		case y < x:
			d[i] = b[i]
		default:
			d[i] = equalOrNaN(a[i], b[i], a[i]|b[i])
		}
	}
}

// maxF32 sets d to the larger of a and b: a number rather than a NaN, and +0 rather than -0.
func maxF32(d, a, b, c *V32) {
	for i := range d {
		x, y := math.Float32frombits(a[i]), math.Float32frombits(b[i])
		switch {
		case x > y:
			d[i] = a[i]
		case y > x:
			d[i] = b[i]
		default:
			d[i] = equalOrNaN(a[i], b[i], a[i]&b[i])
		}
	}
}

// equalOrNaN computes min and max if neither operand is smaller: a number wins over a NaN, and two
// zeroes give joined.
func equalOrNaN(a, b, joined uint32) uint32 {
	aNaN, bNaN := a<<1 > 0xff000000, b<<1 > 0xff000000
	switch {
	case aNaN && bNaN:
		return 0x7fffffff
	case aNaN:
		return b
	case bNaN:
		return a
	}
	return joined
}

// floatU32 converts unsigned integers to the nearest float32.
func floatU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = math.Float32bits(float32(a[i]))
	}
}

// floatS32 converts signed integers to the nearest float32.
func floatS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = math.Float32bits(float32(int32(a[i])))
	}
}

func widenFloat(a uint32) uint64 {
	return math.Float64bits(float64(math.Float32frombits(a)))
}

func narrowFloat(a uint64) uint32 { return canonical(float32(math.Float64frombits(a))) }

func addF64(d, a, b, c *V64) {
	for i := range d {
		d[i] = math.Float64bits(math.Float64frombits(a[i]) + math.Float64frombits(b[i]))
	}
}

// subF64 sets d to a - b.
func subF64(d, a, b, c *V64) {
	for i := range d {
		d[i] = math.Float64bits(math.Float64frombits(a[i]) - math.Float64frombits(b[i]))
	}
}

// mulF64 sets d to a * b.
func mulF64(d, a, b, c *V64) {
	for i := range d {
		d[i] = math.Float64bits(math.Float64frombits(a[i]) * math.Float64frombits(b[i]))
	}
}

// fmaF64 sets d to a * b + c, rounded once.
func fmaF64(d, a, b, c *V64) {
	for i := range d {
		d[i] = math.Float64bits(math.FMA(math.Float64frombits(a[i]), math.Float64frombits(b[i]), math.Float64frombits(c[i])))
	}
}
