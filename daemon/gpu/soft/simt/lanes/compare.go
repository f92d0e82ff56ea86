package lanes

import "math"

// Comparisons return a mask: bit i is lane i.

// eq32 returns the lanes where a == b.
func eq32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] == b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ne32 returns the lanes where a != b.
func ne32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] != b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ltU32 returns the lanes where a < b, unsigned.
func ltU32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] < b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ltS32 returns the lanes where a < b, signed.
func ltS32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if int32(a[i]) < int32(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// leU32 returns the lanes where a <= b, unsigned.
func leU32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] <= b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// leS32 returns the lanes where a <= b, signed.
func leS32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if int32(a[i]) <= int32(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// eqF32 returns the lanes where a == b; a NaN equals nothing.
func eqF32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float32frombits(a[i]) == math.Float32frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// neuF32 returns the lanes where a != b or one of them is NaN.
func neuF32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float32frombits(a[i]) != math.Float32frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ltF32 returns the lanes where a < b and neither is NaN.
func ltF32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float32frombits(a[i]) < math.Float32frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// leF32 returns the lanes where a <= b and neither is NaN.
func leF32(a, b *V32) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float32frombits(a[i]) <= math.Float32frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// eq64 returns the lanes where a == b.
func eq64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] == b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ne64 returns the lanes where a != b.
func ne64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] != b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ltU64 returns the lanes where a < b, unsigned.
func ltU64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] < b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ltS64 returns the lanes where a < b, signed.
func ltS64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if int64(a[i]) < int64(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// leU64 returns the lanes where a <= b, unsigned.
func leU64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if a[i] <= b[i] {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// leS64 returns the lanes where a <= b, signed.
func leS64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if int64(a[i]) <= int64(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// eqF64 returns the lanes where a == b; a NaN equals nothing.
func eqF64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float64frombits(a[i]) == math.Float64frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// neuF64 returns the lanes where a != b or one of them is NaN.
func neuF64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float64frombits(a[i]) != math.Float64frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// ltF64 returns the lanes where a < b and neither is NaN.
func ltF64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float64frombits(a[i]) < math.Float64frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}

// leF64 returns the lanes where a <= b and neither is NaN.
func leF64(a, b *V64) (m uint32) {
	for i := range a {
		var bit uint32
		if math.Float64frombits(a[i]) <= math.Float64frombits(b[i]) {
			bit = 1
		}
		m |= bit << i
	}
	return m
}
