package arith

import (
	"github.com/phos-gpu/phos/internal/ptx"
)

// Atomic is the function of an atomic operation.
type Atomic struct {
	// Bytes is the width of the memory operand: 2, 4 or 8.
	Bytes uint8
	Op    ptx.AtomOp
	// Update computes the new value from the old one and the operands.
	Update func(old, a, b uint64) uint64
}

// LookupAtomic returns an atomic operation, or nil if it does not exist.
func LookupAtomic(op ptx.AtomOp, t ptx.Type) *Atomic {
	update := atomicUpdate(op, t)
	if update == nil {
		return nil
	}
	return &Atomic{Bytes: uint8(t.Bits() / 8), Op: op, Update: update}
}

// atomicUpdate returns the function of an atomic operation on values of type t.
func atomicUpdate(op ptx.AtomOp, t ptx.Type) func(old, a, b uint64) uint64 {
	w := widthOf(t)
	switch op {
	case ptx.AtomExch:
		return func(_, a, _ uint64) uint64 { return a }
	case ptx.AtomCAS:
		return func(old, a, b uint64) uint64 {
			if w.u(old) == w.u(a) {
				return b
			}
			return old
		}
	case ptx.AtomAnd:
		return func(old, a, _ uint64) uint64 { return old & a }
	case ptx.AtomOr:
		return func(old, a, _ uint64) uint64 { return old | a }
	case ptx.AtomXor:
		return func(old, a, _ uint64) uint64 { return old ^ a }
	case ptx.AtomInc:
		return func(old, a, _ uint64) uint64 {
			if w.u(old) >= w.u(a) {
				return 0
			}
			return old + 1
		}
	case ptx.AtomDec:
		return func(old, a, _ uint64) uint64 {
			if w.u(old) == 0 || w.u(old) > w.u(a) {
				return a
			}
			return old - 1
		}
	}
	arithmetic := map[ptx.AtomOp]ptx.Op{ptx.AtomAdd: ptx.OpAdd, ptx.AtomMin: ptx.OpMin, ptx.AtomMax: ptx.OpMax}
	base, ok := arithmetic[op]
	if !ok {
		return nil
	}
	f := Lookup(&ptx.Inst{Op: base, Type: t, Round: ptx.RN, Src: make([]ptx.Operand, 2)})
	if f == nil {
		return nil
	}
	return func(old, a, _ uint64) uint64 { return f(old, a, 0, 0) }
}

// Reduce returns the function that combines two lanes in redux. The operations are those of
// atomics.
func Reduce(op ptx.AtomOp, t ptx.Type) func(a, b uint64) uint64 {
	update := atomicUpdate(op, t)
	if update == nil {
		return nil
	}
	return func(a, b uint64) uint64 { return update(a, b, 0) }
}
