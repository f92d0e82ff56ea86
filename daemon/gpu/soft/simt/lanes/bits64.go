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

func sub64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mul64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func mad64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

func neg64(d, a, b, c *V64) {
	for i := range d {
		d[i] = -a[i]
	}
}

func and64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func or64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xor64(d, a, b, c *V64) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func not64(d, a, b, c *V64) {
	for i := range d {
		d[i] = ^a[i]
	}
}

func mulWideU32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(a[i]) * uint64(b[i])
	}
}

func mulWideS32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

func madWideU32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(a[i])*uint64(b[i]) + c[i]
	}
}

func madWideS32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i]))*int64(int32(b[i]))) + c[i]
	}
}

func widenU32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(a[i])
	}
}

func widenS32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])))
	}
}

func widenF32(d *V64, a, b *V32, c *V64) {
	for i := range d {
		d[i] = widenFloat(a[i])
	}
}

func narrow64(d *V32, a *V64) {
	for i := range d {
		d[i] = uint32(a[i])
	}
}

func narrowF64(d *V32, a *V64) {
	for i := range d {
		d[i] = narrowFloat(a[i])
	}
}

func shl64(d, a *V64, b *V32) {
	for i := range d {
		d[i] = a[i] << b[i]
	}
}

func shrU64(d, a *V64, b *V32) {
	for i := range d {
		d[i] = a[i] >> b[i]
	}
}

func shrS64(d, a *V64, b *V32) {
	for i := range d {
		d[i] = uint64(int64(a[i]) >> b[i])
	}
}
