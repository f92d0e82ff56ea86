package gpu

import (
	"fmt"
	"math/bits"

	"github.com/phos-gpu/phos/hijack/abi"
)

// What every backend refuses at submission, where an error still belongs to the call.

// maxBytes bounds extents and pitches, so that sums and products of checked values cannot overflow.
const maxBytes = 1 << 48

// Check refuses boxes whose rows or slices overlap, and sizes that are beyond any memory.
func (w Copy) Check() error {
	high, total := bits.Mul64(w.Extent[0], w.Extent[1])
	high2, total := bits.Mul64(total, w.Extent[2])
	if high|high2 != 0 || total > maxBytes {
		return &Error{Op: "copy", Code: abi.InvalidValue, Detail: fmt.Sprintf("extent %v is beyond any memory", w.Extent)}
	}
	if total == 0 || w.Extent[1] == 1 && w.Extent[2] == 1 {
		return nil
	}
	for _, p := range [...]Place{w.Dst, w.Src} {
		if w.Extent[1] > 1 && p.RowPitch < w.Extent[0] || p.RowPitch > maxBytes || p.SlicePitch > maxBytes ||
			w.Extent[2] > 1 && p.SlicePitch < (w.Extent[1]-1)*p.RowPitch+w.Extent[0] {
			return &Error{
				Op: "copy", Code: abi.InvalidValue,
				Detail: fmt.Sprintf("pitches %d, %d are too small for extent %v", p.RowPitch, p.SlicePitch, w.Extent),
			}
		}
	}
	return nil
}

// Check refuses patterns that do not exist or do not fit.
func (w Fill) Check() error {
	size := uint64(w.PatternBytes)
	if size != 1 && size != 2 && size != 4 {
		return &Error{Op: "fill", Code: abi.InvalidValue, Detail: fmt.Sprintf("pattern of %d bytes", size)}
	}
	if w.Columns > maxBytes || w.Rows > maxBytes || w.RowPitch > maxBytes {
		return &Error{Op: "fill", Code: abi.InvalidValue, Detail: "the size is beyond any memory"}
	}
	if w.Address%size != 0 || w.Rows > 1 && (w.RowPitch < w.Columns*size || w.RowPitch%size != 0) {
		return &Error{
			Op: "fill", Code: abi.InvalidValue,
			Detail: fmt.Sprintf("address %#x or pitch %d does not fit patterns of %d bytes", w.Address, w.RowPitch, size),
		}
	}
	return nil
}

// Check refuses a call of nothing.
func (w Call) Check() error {
	if w.Func == nil {
		return &Error{Op: "submit call", Code: abi.InvalidValue, Detail: "no function"}
	}
	return nil
}

// Check is that of a Call.
func (w Tell) Check() error { return Call(w).Check() }

// Check refuses words that do not exist, and waits of an unknown kind.
func (w MemoryOps) Check() error {
	for _, op := range w.Ops {
		if op.Bytes != 4 && op.Bytes != 8 || op.Address%uint64(op.Bytes) != 0 || op.Until > UntilZeroBit {
			return &Error{Op: "submit memory operations", Code: abi.InvalidValue, Detail: fmt.Sprintf("%+v", op)}
		}
	}
	return nil
}
