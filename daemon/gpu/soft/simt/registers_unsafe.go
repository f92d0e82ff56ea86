package simt

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/lanes"
	"github.com/phos-gpu/phos/internal/ptx"
)

// registers is a warp's register block: columns of 32 lanes, and predicates as masks. Columns are
// accessed by byte offset without a bounds check, because all offsets come from package code.
type registers struct {
	base       unsafe.Pointer
	words      []uint64 // the memory at base
	predicates []uint32
	scratch32  lanes.V32
	scratch64  lanes.V64
	address    lanes.V64 // computed addresses; a local variable would escape through the loops' pointers
}

// newRegisters places the block in memory, which must be zeroed, aligned to 64 bytes and large
// enough.
func newRegisters(memory []uint64, predicates []uint32) registers {
	return registers{base: unsafe.Pointer(unsafe.SliceData(memory)), words: memory, predicates: predicates}
}

// grow makes room for a callee's part of the block, and returns how many bytes it has added.
func (r *registers) grow(b *code.Block) (bytes int) {
	if words := int(b.RegisterBytes / 8); words > len(r.words) {
		grown := alignedWords(words)
		bytes = 8 * (words - len(r.words))
		copy(grown, r.words)
		r.words, r.base = grown, unsafe.Pointer(unsafe.SliceData(grown))
	}
	if more := int(b.Predicates) - len(r.predicates); more > 0 {
		r.predicates = slices.Concat(r.predicates, make([]uint32, more))
	}
	return bytes
}

// alignedWords allocates count words at a multiple of 64 bytes, so that columns are whole cache
// lines.
func alignedWords(count int) []uint64 {
	words := make([]uint64, count+8)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(words))) & 63 / 8
	return words[skip : int(skip)+count]
}

// v32 returns the 32-bit column at a byte offset.
func (r *registers) v32(at uint32) *lanes.V32 { return (*lanes.V32)(unsafe.Add(r.base, at)) }

// v64 returns the 64-bit column at a byte offset.
func (r *registers) v64(at uint32) *lanes.V64 { return (*lanes.V64)(unsafe.Add(r.base, at)) }

// predicate returns a predicate source as a mask.
func (r *registers) predicate(ref code.Ref) uint32 {
	p := r.predicates[ref.At]
	if ref.Negated {
		return ^p
	}
	return p
}

// setPredicate sets a predicate in the lanes of mask.
func (r *registers) setPredicate(at uint32, mask, value uint32) {
	p := &r.predicates[at]
	*p = *p&^mask | value&mask
}

// read returns one lane of a register as bits.
func (r *registers) read(ref code.Ref, lane int) uint64 {
	switch ref.Class {
	case ptx.R64:
		return r.v64(ref.At)[lane&31]
	case ptx.Pred:
		return uint64(r.predicate(ref) >> lane & 1)
	}
	return uint64(r.v32(ref.At)[lane&31])
}

// write sets one lane of a register, truncated to its class.
func (r *registers) write(ref code.Ref, lane int, v uint64) {
	switch {
	case ref.Sink:
	case ref.Class == ptx.R64:
		r.v64(ref.At)[lane&31] = v
	case ref.Class == ptx.R32:
		r.v32(ref.At)[lane&31] = uint32(v)
	case ref.Class == ptx.R16:
		r.v32(ref.At)[lane&31] = uint32(uint16(v))
	default:
		r.setPredicate(ref.At, 1<<lane, uint32(v&1)<<lane)
	}
}

// readAll reads all lanes of a register.
func (r *registers) readAll(ref code.Ref, into *lanes.V64) {
	switch ref.Class {
	case ptx.R64:
		*into = *r.v64(ref.At)
	case ptx.Pred:
		p := r.predicate(ref)
		for i := range into {
			into[i] = uint64(p >> i & 1)
		}
	default:
		for i, v := range r.v32(ref.At) {
			into[i] = uint64(v)
		}
	}
}

// writeAll writes the lanes of mask.
func (r *registers) writeAll(ref code.Ref, mask uint32, from *lanes.V64) {
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		r.write(ref, lane, from[lane&31])
	}
}

// blend32 copies the lanes of mask.
func blend32(d, from *lanes.V32, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = from[i]
	}
}

// blend64 copies the lanes of mask.
func blend64(d, from *lanes.V64, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = from[i]
	}
}
