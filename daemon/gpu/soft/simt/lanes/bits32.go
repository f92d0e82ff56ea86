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

// sub32 sets d to a - b, modulo 2^32.
func sub32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

// mul32 sets d to the low 32 bits of a * b.
func mul32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

// mad32 sets d to the low 32 bits of a * b + c.
func mad32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

// mulHiU32 sets d to the upper 32 bits of an unsigned a * b.
func mulHiU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(uint64(a[i]) * uint64(b[i]) >> 32)
	}
}

// mulHiS32 sets d to the upper 32 bits of a signed a * b.
func mulHiS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(uint64(int64(int32(a[i]))*int64(int32(b[i]))) >> 32)
	}
}

// neg32 sets d to -a. The smallest number stays as it is.
func neg32(d, a, b, c *V32) {
	for i := range d {
		d[i] = -a[i]
	}
}

// and32 sets d to the bitwise a AND b.
func and32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

// or32 sets d to the bitwise a OR b.
func or32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

// xor32 sets d to the bitwise a XOR b.
func xor32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

// not32 sets d to the complement of a.
func not32(d, a, b, c *V32) {
	for i := range d {
		d[i] = ^a[i]
	}
}

// shl32 shifts a left by b; 0 if b is above 31.
func shl32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

// shrU32 shifts a right by b and fills with zeros; 0 if b is above 31.
func shrU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

// shrS32 shifts a right by b and fills with the sign; only the sign if b is above 31.
func shrS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(int32(a[i]) >> b[i])
	}
}

// minU32 sets d to the smaller of a and b, unsigned.
func minU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

// maxU32 sets d to the larger of a and b, unsigned.
func maxU32(d, a, b, c *V32) {
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

// minS32 sets d to the smaller of a and b, signed.
func minS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(min(int32(a[i]), int32(b[i])))
	}
}

// maxS32 sets d to the larger of a and b, signed.
func maxS32(d, a, b, c *V32) {
	for i := range d {
		d[i] = uint32(max(int32(a[i]), int32(b[i])))
	}
}

// negF32 flips the sign bit of a float32, of a NaN too.
func negF32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] ^ 1<<31
	}
}

// absF32 clears the sign bit of a float32, of a NaN too.
func absF32(d, a, b, c *V32) {
	for i := range d {
		d[i] = a[i] &^ (1 << 31)
	}
}
