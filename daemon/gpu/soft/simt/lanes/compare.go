package lanes

import "math"

// Comparisons return a mask: bit i is lane i.

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
