package lanes

// Loops of 64-bit operations, and of those that widen and narrow.

func copy64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i]
	}
}

func add64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

// sub64 sets d to a - b, modulo 2^64.
func sub64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

// mul64 sets d to the low 64 bits of a * b.
func mul64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

// mad64 sets d to the low 64 bits of a * b + c.
func mad64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

// neg64 sets d to -a. The smallest number stays as it is.
func neg64(d, a, b, c *V64) {
	for i := range d {
		d[i] = -a[i]
	}
}

// and64 sets d to the bitwise a AND b.
func and64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

// or64 sets d to the bitwise a OR b.
func or64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

// xor64 sets d to the bitwise a XOR b.
func xor64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

// not64 sets d to the complement of a.
func not64(d, a, b, c *V64) {
	for i := range d {
		d[i] = ^a[i]
	}
}

// mulWideU32 sets d to all 64 bits of an unsigned a * b.
func mulWideU32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(a[i]) * uint64(b[i])
	}
}

// mulWideS32 sets d to all 64 bits of a signed a * b.
func mulWideS32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

// madWideU32 adds c to all 64 bits of an unsigned a * b.
func madWideU32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(a[i])*uint64(b[i]) + c[i]
	}
}

// madWideS32 adds c to all 64 bits of a signed a * b.
func madWideS32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i]))*int64(int32(b[i]))) + c[i]
	}
}

// widenU32 zero-extends a to 64 bits.
func widenU32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(a[i])
	}
}

// widenS32 sign-extends a to 64 bits.
func widenS32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])))
	}
}

// widenF32 converts float32 to float64.
func widenF32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = widenFloat(a[i])
	}
}

// narrow64 keeps the low 32 bits of a.
func narrow64(d *V32, a *V64) {
	for i := range d {
		d[i] = uint32(a[i])
	}
}

// narrowF64 rounds float64 to the nearest float32, with a canonical NaN.
func narrowF64(d *V32, a *V64) {
	for i := range d {
		d[i] = narrowFloat(a[i])
	}
}

// shl64 shifts a left by b; 0 if b is above 63.
func shl64(d, a *V64, b *V32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

// shrU64 shifts a right by b and fills with zeros; 0 if b is above 63.
func shrU64(d, a *V64, b *V32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

// shrS64 shifts a right by b and fills with the sign; only the sign if b is above 63.
func shrS64(d, a *V64, b *V32) {
	for i := range d {
		d[i] = uint64(int64(a[i]) >> b[i])
	}
}
