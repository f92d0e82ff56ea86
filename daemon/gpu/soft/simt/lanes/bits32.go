package lanes

// Loops of 32-bit operations. A loop computes all 32 lanes, needed or not; no operation can fail.

func copy32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i]
	}
}

func add32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func sub32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mul32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func mad32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

func mulHiU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(uint64(a[i]) * uint64(b[i]) >> 32)
	}
}

func mulHiS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(uint64(int64(int32(a[i]))*int64(int32(b[i]))) >> 32)
	}
}

func neg32(d, a, b, c *V32) {
	for i := range d {
		d[i] = -a[i]
	}
}

func and32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func or32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xor32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func not32(d, a, b, c *V32) {
	for i := range d {
		d[i] = ^a[i]
	}
}

func shl32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func shrU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

func shrS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(int32(a[i]) >> b[i])
	}
}

func minU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maxU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

func minS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(min(int32(a[i]), int32(b[i])))
	}
}

func maxS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(max(int32(a[i]), int32(b[i])))
	}
}

func negF32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] ^ 1<<31
	}
}

func absF32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] &^ (1 << 31)
	}
}
