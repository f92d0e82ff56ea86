package simt

import (
	"math/bits"
	"unsafe"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/lanes"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/matrix"
	"github.com/phos-gpu/phos/internal/ptx"
)

// matrix executes the instructions on matrices. All lanes of the warp must converge for them. Lanes
// that have exited, which the ISA forbids, take part with the contents of their registers.
func (w *warp) matrix(in *code.Inst, mask uint32) {
	if !w.awaitMembers(fullMask &^ (w.mask &^ mask)) {
		return
	}
	switch in.Shape {
	case code.MatrixMultiply:
		w.multiply(in.X, mask)
	case code.MatrixLoad:
		w.loadMatrix(in, mask)
	case code.MatrixStore:
		w.storeMatrix(in, mask)
	case code.MatrixMove:
		tile := w.tile(in.X.Src[0])
		w.setTile(in.X.Dst[0], mask, tile, true)
	}
}

// multiply executes mma.
func (w *warp) multiply(x *code.Extra, mask uint32) {
	var src [16]matrix.Column // a, b and c at their largest: 8, 4 and 4 registers
	var dst [4]matrix.Column
	for i, ref := range x.Src {
		w.readAll(ref, &src[i])
	}
	inC := len(x.Dst)
	inA, inB := x.Matrix.Registers()
	x.Matrix.Run(dst[:inC], src[:inA], src[inA:inA+inB], src[inA+inB:inA+inB+inC])
	for i, ref := range x.Dst {
		w.writeAll(ref, mask, &dst[i])
	}
}

// tile is a matrix of 8 by 8 halves. Each lane holds two adjacent halves of row lane/4.
type tile [8][8]uint16

// tile reads a tile from a register.
func (w *warp) tile(ref code.Ref) (t tile) {
	for lane, v := range w.v32(ref.At) {
		row, column := lane/4, lane%4*2
		t[row][column], t[row][column+1] = uint16(v), uint16(v>>16)
	}
	return t
}

// setTile writes a tile to a register.
func (w *warp) setTile(ref code.Ref, mask uint32, t tile, transposed bool) {
	if ref.Sink {
		return
	}
	if transposed {
		t = t.transposed()
	}
	d := w.v32(ref.At)
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		row, column := lane/4, lane%4*2
		d[lane] = uint32(t[row][column]) | uint32(t[row][column+1])<<16
	}
}

// transposed returns a copy of the tile with rows and columns swapped.
func (t tile) transposed() (turned tile) {
	for row := range t {
		for column, v := range &t[row] {
			turned[column][row] = v
		}
	}
	return turned
}

// rowLanes returns the lanes of mask whose addresses count for n matrices: eight lanes for the rows
// of each.
func rowLanes(mask uint32, n int) uint32 { return mask & uint32(uint64(1)<<(8*n)-1) }

// loadMatrix executes ldmatrix.
func (w *warp) loadMatrix(in *code.Inst, mask uint32) {
	var memory [warpLanes]unsafe.Pointer
	rows := rowLanes(mask, len(in.X.Dst))
	w.pointers(in, rows, false, &memory)
	var tiles [4]tile // read before any register is written: a destination may be the address register
	for m := rows; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		tiles[lane/8][lane%8] = *(*[8]uint16)(memory[lane])
	}
	for i, ref := range in.X.Dst {
		w.setTile(ref, mask, tiles[i], in.X.Mode == ptx.MatrixTrans)
	}
}

// storeMatrix executes stmatrix.
func (w *warp) storeMatrix(in *code.Inst, mask uint32) {
	var memory [warpLanes]unsafe.Pointer
	rows := rowLanes(mask, len(in.X.Src))
	w.pointers(in, rows, true, &memory)
	for i, ref := range in.X.Src {
		t := w.tile(ref)
		if in.X.Mode == ptx.MatrixTrans {
			t = t.transposed()
		}
		for m := rows & (0xff << (8 * i)); m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m) & 31
			*(*[8]uint16)(memory[lane]) = t[lane%8]
		}
	}
}

// loadPart executes the load of a cp.async that reads only part: a number of bytes, the rest being
// zeroes, or nothing if a predicate says so. A lane that reads nothing does not access memory.
func (w *warp) loadPart(in *code.Inst, mask uint32) {
	var count, value lanes.V64
	var memory [warpLanes]unsafe.Pointer
	size := in.X.Src[0]
	w.readAll(size, &count)
	reading := uint32(0)
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if size.Class == ptx.Pred {
			count[i] = (1 - count[i]) * 16
		}
		if count[i] > 0 {
			reading |= 1 << i
		}
	}
	w.pointers(in, reading, false, &memory)
	for e, ref := range in.X.Dst {
		for m := reading; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			value[i] = 0
			for b := range min(4, max(int(count[i])-4*e, 0)) {
				value[i] |= uint64(*(*byte)(unsafe.Add(memory[i], 4*e+b))) << (8 * b)
			}
		}
		w.writeAll(ref, mask, &value)
	}
}
