package matrix

import (
	"github.com/phos-gpu/phos/internal/ptx"
)

const (
	lanes   = 32
	columns = 8 // of b, c and d
	// The largest shape.
	maxRows, maxInner = 16, 32
)

// Column is one register of all lanes.
type Column = [lanes]uint64

// Operation is an mma of one shape and one combination of types: d = a b + c.
type Operation struct {
	rows, inner int
	// pack is the number of elements of a and b per register, packC that of c and d.
	pack, packC int
	a, b, c     decoder
	d           encoder
	fused       bool // products are not exact in float64
}

// Lookup returns the operation of an mma instruction.
func Lookup(in *ptx.Inst) *Operation {
	o := &Operation{a: decoderOf(in.SrcType), b: decoderOf(in.ThirdType), c: decoderOf(in.Type)}
	o.rows, o.inner = in.MatrixShape()
	o.pack, o.packC = max(32/in.SrcType.Bits(), 1), max(32/in.Type.Bits(), 1)
	o.d = encoderOf(in.Type, in.Flags&ptx.SatFinite != 0)
	o.fused = in.Type == ptx.F64
	return o
}

// Run multiplies. The registers of each matrix are in operand order.
func (o *Operation) Run(d, a, b, c []Column) {
	var left [maxRows][maxInner]float64
	var right [maxInner][columns]float64
	var sum [maxRows][columns]float64
	o.readLeft(&left, a)
	o.readRight(&right, b)
	o.readSum(&sum, c)
	for row := range o.rows {
		if o.fused {
			fuseRow(&sum[row], left[row][:o.inner], &right)
		} else {
			addRow(&sum[row], left[row][:o.inner], &right)
		}
	}
	o.writeSum(d, &sum)
}

// Lane n is number n%4 in group n/4. The group holds row n/4 of a, c and d and column n/4 of b. A
// register of a or b holds neighbours along the inner dimension; four adjacent lanes form a run of
// 4*pack elements. With 16 rows, the odd registers of a hold row n/4+8.

// readLeft decodes a.
func (o *Operation) readLeft(into *[maxRows][maxInner]float64, a []Column) {
	tall := o.rows / columns // 1 or 2 rows per group
	for r := range a {
		row, stretch := r%tall*8, r/tall*4*o.pack
		for lane, bits := range &a[r] {
			q := o.a(bits)
			copy(into[row+lane/4][stretch+lane%4*o.pack:], q[:o.pack])
		}
	}
}

// readRight decodes b.
func (o *Operation) readRight(into *[maxInner][columns]float64, b []Column) {
	for r := range b {
		for lane, bits := range &b[r] {
			q := o.b(bits)
			first := (4*r + lane%4) * o.pack
			for i, x := range q[:o.pack] {
				into[first+i][lane/4] = x
			}
		}
	}
}

// place returns the position of the first element of register r of c and d. A lane holds two
// neighbours of a row.
func (o *Operation) place(r, lane int) (row, column int) {
	first := r * o.packC
	return first/2*8 + lane/4, lane%4*2 + first%2
}

// readSum decodes c.
func (o *Operation) readSum(into *[maxRows][columns]float64, c []Column) {
	for r := range c {
		for lane, bits := range &c[r] {
			row, column := o.place(r, lane)
			q := o.c(bits)
			copy(into[row][column:], q[:o.packC])
		}
	}
}

// writeSum encodes d.
func (o *Operation) writeSum(d []Column, from *[maxRows][columns]float64) {
	for r := range d {
		for lane := range &d[r] {
			row, column := o.place(r, lane)
			bits := uint64(0)
			for i, x := range from[row][column:][:o.packC] {
				bits |= o.d(x) << (16 * i)
			}
			d[r][lane] = bits
		}
	}
}

// Registers returns how many registers hold a and b.
func (o *Operation) Registers() (inA, inB int) {
	return o.rows * o.inner / lanes / o.pack, columns * o.inner / lanes / o.pack
}
