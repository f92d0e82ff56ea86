package simt

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/lanes"
)

// wholeBytes is how many bytes of a vector move between memory and a lane at once. PTX does not
// specify the order of a vector's elements, but a GPU moves them together, and programs rely on it:
// a word and its ready flag in one vector.
const wholeBytes = 16

// loadAny executes ld in its general form: vectors, narrow and extended elements, all spaces.
func (w *warp) loadAny(in *code.Inst, mask uint32) {
	var memory lanes.Pointers
	w.pointers(in, mask, false, &memory)
	if in.Memory.Vec > 1 {
		w.loadVector(in, mask, &memory)
		return
	}
	if ref := in.X.Dst[0]; !ref.Sink {
		var value lanes.V64
		loadElements(&value, &memory, in.Memory, mask)
		w.writeAll(ref, mask, &value)
	}
}

// loadVector loads a vector, up to wholeBytes at once.
func (w *warp) loadVector(in *code.Inst, mask uint32, memory *lanes.Pointers) {
	var whole lanes.V128
	var value lanes.V64
	bytes := int(in.Memory.Bytes)
	// Read memory before writing any register: a destination may be the address register.
	for e, ref := range in.X.Dst {
		at := e * bytes % wholeBytes
		if at == 0 {
			loadWhole(&whole, memory, e*bytes, in.Memory, mask)
		}
		if !ref.Sink {
			extractElement(&value, &whole, at, in.Memory, mask)
			w.writeAll(ref, mask, &value)
		}
	}
}

// storeAny executes st in its general form.
func (w *warp) storeAny(in *code.Inst, mask uint32) {
	var memory lanes.Pointers
	w.pointers(in, mask, true, &memory)
	var value lanes.V64
	if in.Memory.Vec == 1 {
		w.readAll(in.X.Src[0], &value)
		storeElements(&value, &memory, in.Memory, mask)
		return
	}
	var whole lanes.V128
	bytes := int(in.Memory.Bytes)
	for e, ref := range in.X.Src {
		w.readAll(ref, &value)
		at := e * bytes % wholeBytes
		insertElement(&value, &whole, at, bytes)
		if at+bytes == wholeSize(in.Memory) {
			storeWhole(&whole, &memory, e*bytes-at, in.Memory, mask)
		}
	}
}

// wholeSize returns how many bytes of a vector move at once.
func wholeSize(m code.Memory) int { return min(int(m.Bytes)*int(m.Vec), wholeBytes) }

// loadWhole loads the next wholeSize bytes of a vector, from distance on.
func loadWhole(into *lanes.V128, memory *lanes.Pointers, distance int, m code.Memory, mask uint32) {
	bytes := wholeSize(m)
	if bytes == wholeBytes {
		lanes.Load128(into, memory, uintptr(distance), mask)
		return
	}
	var value lanes.V64
	loadElements(&value, memory, code.Memory{Bytes: uint8(bytes)}, mask) // shorter vectors move as one element
	for i := range into {
		into[i][0] = value[i]
	}
}

// storeWhole is the inverse of loadWhole.
func storeWhole(from *lanes.V128, memory *lanes.Pointers, distance int, m code.Memory, mask uint32) {
	bytes := wholeSize(m)
	if bytes == wholeBytes {
		lanes.Store128(from, memory, uintptr(distance), mask)
		return
	}
	var value lanes.V64
	for i := range from {
		value[i] = from[i][0]
	}
	storeElements(&value, memory, code.Memory{Bytes: uint8(bytes), Sync: m.Sync}, mask)
}

// extractElement reads one element from the bytes that loadWhole has loaded.
func extractElement(value *lanes.V64, whole *lanes.V128, at int, m code.Memory, mask uint32) {
	from := unsafe.Add(unsafe.Pointer(whole), at)
	switch m.Bytes {
	case 1:
		extractAs[uint8](value, from)
	case 2:
		extractAs[uint16](value, from)
	case 4:
		extractAs[uint32](value, from)
	default:
		extractAs[uint64](value, from)
	}
	if m.Signed && m.Bytes < 8 {
		for l, unused := mask, 64-8*m.Bytes; l != 0; l &= l - 1 {
			i := bits.TrailingZeros32(l) & 31
			value[i] = uint64(int64(value[i]<<unused) >> unused)
		}
	}
}

// extractAs reads a T of each lane, zero-extended. from points to lane 0's in a V128.
func extractAs[T element](value *lanes.V64, from unsafe.Pointer) {
	for i := range value {
		value[i] = uint64(*(*T)(unsafe.Add(from, i*wholeBytes)))
	}
}

// insertElement writes one element to the bytes that storeWhole will store.
func insertElement(value *lanes.V64, whole *lanes.V128, at, bytes int) {
	to := unsafe.Add(unsafe.Pointer(whole), at)
	switch bytes {
	case 1:
		insertAs[uint8](value, to)
	case 2:
		insertAs[uint16](value, to)
	case 4:
		insertAs[uint32](value, to)
	default:
		insertAs[uint64](value, to)
	}
}

// insertAs writes the low bytes of each lane as a T. to points to lane 0's in a V128.
func insertAs[T element](value *lanes.V64, to unsafe.Pointer) {
	for i := range value {
		*(*T)(unsafe.Add(to, i*wholeBytes)) = T(value[i])
	}
}

// loadElements loads one element for each lane of a mask.
func loadElements(value *lanes.V64, memory *lanes.Pointers, m code.Memory, mask uint32) {
	switch {
	case m.Bytes == 1 && m.Signed:
		loadElementsAs[int8](value, memory, mask)
	case m.Bytes == 1:
		loadElementsAs[uint8](value, memory, mask)
	case m.Bytes == 2 && m.Signed:
		loadElementsAs[int16](value, memory, mask)
	case m.Bytes == 2:
		loadElementsAs[uint16](value, memory, mask)
	case m.Bytes == 4 && m.Signed:
		loadElementsAs[int32](value, memory, mask)
	case m.Bytes == 4:
		loadElementsAs[uint32](value, memory, mask)
	default:
		loadElementsAs[uint64](value, memory, mask)
	}
}

type element interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | uint64
}

func loadElementsAs[T element](value *lanes.V64, memory *lanes.Pointers, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		value[i] = uint64(*(*T)(memory[i]))
	}
}

// storeElements stores one element for each lane of a mask.
func storeElements(value *lanes.V64, memory *lanes.Pointers, m code.Memory, mask uint32) {
	switch {
	case m.Bytes == 1:
		storeElementsAs[uint8](value, memory, mask)
	case m.Bytes == 2:
		storeElementsAs[uint16](value, memory, mask)
	case m.Sync:
		storeElementsAtomic(value, memory, m, mask)
	case m.Bytes == 4:
		storeElementsAs[uint32](value, memory, mask)
	default:
		storeElementsAs[uint64](value, memory, mask)
	}
}

func storeElementsAs[T element](value *lanes.V64, memory *lanes.Pointers, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		*(*T)(memory[i]) = T(value[i])
	}
}

// storeElementsAtomic is storeElements with ordered stores, for accesses that synchronize.
func storeElementsAtomic(value *lanes.V64, memory *lanes.Pointers, m code.Memory, mask uint32) {
	for l := mask; l != 0; l &= l - 1 {
		i := bits.TrailingZeros32(l) & 31
		if p := memory[i]; m.Bytes == 4 {
			atomic.StoreUint32((*uint32)(p), uint32(value[i]))
		} else {
			atomic.StoreUint64((*uint64)(p), value[i])
		}
	}
}
