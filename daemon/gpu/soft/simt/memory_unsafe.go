package simt

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/lanes"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
)

// site is the inline cache of a memory instruction: the span that it accessed last. size bytes of
// memory at host are the addresses from low on. An access of n bytes is inside and aligned exactly
// if its distance from low, rotated right by log2(n), is below size/n: the low bits of a misaligned
// distance end up on top. This one comparison checks bounds, presence and the dirty bit.
type site struct {
	low, size uint64
	host      unsafe.Pointer
}

// siteAlign is the alignment of low, so that distances from it show alignment. It is the size of
// the largest access.
const siteAlign = 32

// newSite returns a site for a span. The start is rounded up to a multiple of siteAlign.
func newSite(s space.Span) site {
	skip := -s.Address % siteAlign
	if uint64(len(s.Memory)) <= skip {
		return site{}
	}
	memory := s.Memory[skip:]
	return site{s.Address + skip, uint64(len(memory)), unsafe.Pointer(unsafe.SliceData(memory))}
}

// addresses returns the lanes' addresses as 64 bits, without the instruction's offset.
func (w *warp) addresses(in *code.Inst, into *lanes.V64) *lanes.V64 {
	if !in.Memory.Address32 && !in.Memory.Frame {
		return w.v64(in.A)
	}
	if in.Memory.Address32 {
		lanes.Widen32(into, w.v32(in.A), w.v32(in.A), into)
		return into
	}
	frame := w.v32(w.block.kernel.Frame)
	for i, a := range w.v64(in.A) {
		into[i] = a + uint64(frame[i])
	}
	return into
}

// siteOf returns the site of an instruction. Shared memory has one site for all instructions.
func (w *warp) siteOf(in *code.Inst) *site {
	if in.Memory.Space == code.Shared {
		return &w.block.shared
	}
	return &w.block.runner.sites[in.Site]
}

// access executes ld or st and returns its extra cost.
func (w *warp) access(in *code.Inst, mask uint32) int {
	if in.Shape == code.Store {
		return w.store(in, mask)
	}
	return w.load(in, mask)
}

// load executes ld and returns its extra cost.
func (w *warp) load(in *code.Inst, mask uint32) int {
	if !in.Memory.Simple || in.Memory.Space == code.Local {
		w.loadAny(in, mask)
	} else if in.Memory.Bytes == 4 {
		w.load32(in, mask, w.addresses(in, &w.address))
	} else {
		w.load64(in, mask, w.addresses(in, &w.address))
	}
	if in.Memory.Sync {
		return syncCost
	}
	return 0
}

// load32 loads one 32-bit element per lane, through the site where it applies.
func (w *warp) load32(in *code.Inst, mask uint32, address *lanes.V64) {
	s := w.siteOf(in)
	d := w.v32(in.D)
	offset, limit, host := uint64(in.Offset)-s.low, s.size>>2, s.host
	if mask == fullMask {
		mask &^= lanes.Load32(d, address, offset, limit, host)
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if at := address[i] + offset; bits.RotateLeft64(at, -2) < limit {
			d[i] = *(*uint32)(unsafe.Add(host, at))
			continue
		}
		d[i] = *(*uint32)(w.locate(in, i, address[i], false))
		offset, limit, host = uint64(in.Offset)-s.low, s.size>>2, s.host
	}
}

// load64 loads one 64-bit element per lane.
func (w *warp) load64(in *code.Inst, mask uint32, address *lanes.V64) {
	s := w.siteOf(in)
	d := w.v64(in.D)
	offset, limit, host := uint64(in.Offset)-s.low, s.size>>3, s.host
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if at := address[i] + offset; bits.RotateLeft64(at, -3) < limit {
			d[i] = *(*uint64)(unsafe.Add(host, at))
			continue
		}
		d[i] = *(*uint64)(w.locate(in, i, address[i], false))
		offset, limit, host = uint64(in.Offset)-s.low, s.size>>3, s.host
	}
}

// store executes st and returns its extra cost.
func (w *warp) store(in *code.Inst, mask uint32) int {
	if !in.Memory.Simple || in.Memory.Space == code.Local {
		w.storeAny(in, mask)
	} else if in.Memory.Bytes == 4 {
		w.store32(in, mask, w.addresses(in, &w.address))
	} else {
		w.store64(in, mask, w.addresses(in, &w.address))
	}
	if in.Memory.Sync {
		return syncCost
	}
	return 0
}

// store32 stores one 32-bit element per lane.
func (w *warp) store32(in *code.Inst, mask uint32, address *lanes.V64) {
	s := w.siteOf(in)
	from := w.v32(in.B)
	offset, limit, host := uint64(in.Offset)-s.low, s.size>>2, s.host
	if mask == fullMask {
		mask &^= lanes.Store32(from, address, offset, limit, host)
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if at := address[i] + offset; bits.RotateLeft64(at, -2) < limit {
			*(*uint32)(unsafe.Add(host, at)) = from[i]
			continue
		}
		*(*uint32)(w.locate(in, i, address[i], true)) = from[i]
		offset, limit, host = uint64(in.Offset)-s.low, s.size>>2, s.host
	}
}

// store64 stores one 64-bit element per lane.
func (w *warp) store64(in *code.Inst, mask uint32, address *lanes.V64) {
	s := w.siteOf(in)
	from := w.v64(in.B)
	offset, limit, host := uint64(in.Offset)-s.low, s.size>>3, s.host
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if at := address[i] + offset; bits.RotateLeft64(at, -3) < limit {
			*(*uint64)(unsafe.Add(host, at)) = from[i]
			continue
		}
		*(*uint64)(w.locate(in, i, address[i], true)) = from[i]
		offset, limit, host = uint64(in.Offset)-s.low, s.size>>3, s.host
	}
}

// locate finds the memory of one lane's access on the slow path and updates the site. It panics
// with a fault if there is none. address is without the instruction's offset.
func (w *warp) locate(in *code.Inst, lane int, address uint64, write bool) unsafe.Pointer {
	address += uint64(in.Offset)
	bytes := uint64(in.Memory.Bytes) * uint64(in.Memory.Vec)
	narrow := in.Memory.Space == code.Shared || in.Memory.Space == code.Local
	if narrow { // addresses in these spaces have 32 bits and wrap
		address = uint64(uint32(address))
	}
	if address&(bytes-1) != 0 {
		panic(w.fault(lane, abi.MisalignedAddress, address))
	}
	switch in.Memory.Space {
	case code.Shared:
		return w.locateShared(lane, address, bytes)
	case code.Local:
		return w.locateLocal(lane, address, bytes)
	}
	if address-space.SharedBase < space.CodeBase-space.SharedBase {
		return w.locateWindow(lane, address, bytes, write)
	}
	s := w.findSpan(lane, address, write)
	if bytes > uint64(len(s.Memory))-(address-s.Address) {
		panic(w.fault(lane, abi.IllegalAddress, address))
	}
	w.block.runner.sites[in.Site] = newSite(s)
	return unsafe.Pointer(&s.Memory[address-s.Address])
}

// findSpan looks up a span in the address space. If the lookup made other spans stale, it drops all
// sites.
func (w *warp) findSpan(lane int, address uint64, write bool) space.Span {
	r := w.block.runner
	s, err := r.memory.Find(r.reader, address, write)
	r.refresh()
	if err == nil {
		return s
	}
	if errors.Is(err, abi.IllegalAddress) {
		panic(w.fault(lane, abi.IllegalAddress, address))
	}
	f := w.fault(lane, gpu.Code(err), address)
	f.Detail = err.Error()
	panic(f)
}

// locateWindow finds shared, local or parameter memory at a generic address.
func (w *warp) locateWindow(lane int, address, bytes uint64, write bool) unsafe.Pointer {
	switch {
	case address-space.LocalBase < space.WindowBytes:
		return w.locateLocal(lane, address-space.LocalBase, bytes)
	case address-space.ParamBase < space.WindowBytes:
		at, params := address-space.ParamBase, w.block.launch.Params
		if write || at+bytes > uint64(len(params)) {
			panic(w.fault(lane, abi.IllegalAddress, address))
		}
		return unsafe.Pointer(&params[at])
	}
	return w.locateShared(lane, address-space.SharedBase, bytes)
}

// locateShared finds shared memory of the block.
func (w *warp) locateShared(lane int, at, bytes uint64) unsafe.Pointer {
	s := &w.block.shared
	if at >= s.size || bytes > s.size-at {
		panic(w.fault(lane, abi.IllegalAddress, space.SharedBase+at))
	}
	return unsafe.Add(s.host, at)
}

// locateLocal finds local memory of one lane.
func (w *warp) locateLocal(lane int, at, bytes uint64) unsafe.Pointer {
	each := w.localBytes
	if at >= each || bytes > each-at {
		panic(w.fault(lane, abi.IllegalAddress, space.LocalBase+at))
	}
	return unsafe.Pointer(&w.local[uint64(lane)*each+at])
}

// growLocal makes room for so many bytes of local memory per lane. It returns false if that is more
// than the kernel may have.
func (w *warp) growLocal(bytes uint64) bool {
	limit := w.block.kernel.LocalLimit
	if bytes <= w.localBytes || bytes > limit {
		return bytes <= limit
	}
	each := min(max(bytes, 2*w.localBytes), limit)
	grown := make([]byte, warpLanes*each)
	w.block.grow(len(grown) - len(w.local))
	for lane := range uint64(warpLanes) {
		copy(grown[lane*each:], w.local[lane*w.localBytes:(lane+1)*w.localBytes])
	}
	w.local, w.localBytes = grown, each
	return true
}

// pointers finds the memory of every lane of mask. A lane may wait for its chunk, and what was
// found for others is stale then: it looks again.
func (w *warp) pointers(in *code.Inst, mask uint32, write bool, into *lanes.Pointers) {
	for {
		version := w.block.runner.version
		w.findPointers(in, mask, write, into)
		if w.block.runner.version == version {
			return
		}
	}
}

// findPointers is pointers, once.
func (w *warp) findPointers(in *code.Inst, mask uint32, write bool, into *lanes.Pointers) {
	address := w.addresses(in, &w.address)
	if in.Memory.Space == code.Local {
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			into[i] = w.locate(in, i, address[i], write)
		}
		return
	}
	s := w.siteOf(in)
	bytes := uint64(in.Memory.Bytes) * uint64(in.Memory.Vec)
	shift := bits.TrailingZeros64(bytes)
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		if at := address[i] + uint64(in.Offset) - s.low; bits.RotateLeft64(at, -shift) < s.size>>shift {
			into[i] = unsafe.Add(s.host, at)
			continue
		}
		into[i] = w.locate(in, i, address[i], write)
	}
}

// loadParam executes ld.param of a kernel parameter, which is the same for all lanes.
func (w *warp) loadParam(in *code.Inst, mask uint32) {
	params := w.block.launch.Params
	for e, ref := range in.X.Dst {
		var raw [8]byte
		at := in.Offset + int64(e)*int64(in.Memory.Bytes)
		copy(raw[:in.Memory.Bytes], params[at:])
		v := binary.LittleEndian.Uint64(raw[:])
		if in.Memory.Signed {
			unused := 64 - 8*uint(in.Memory.Bytes)
			v = uint64(int64(v<<unused) >> unused)
		}
		for m := mask; m != 0; m &= m - 1 {
			w.write(ref, bits.TrailingZeros32(m), v)
		}
	}
}

// atomic executes atom and red, lane by lane in order.
func (w *warp) atomic(in *code.Inst, mask uint32) {
	var memory lanes.Pointers
	w.pointers(in, mask, true, &memory)
	x := in.X
	var a, b lanes.V64
	w.readAll(x.Src[0], &a)
	if len(x.Src) > 1 {
		w.readAll(x.Src[1], &b)
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		a[i] = update(memory[i], x, a[i], b[i])
	}
	w.writeAll(x.Dst[0], mask, &a)
}

// update changes memory atomically and returns the old value.
func update(p unsafe.Pointer, x *code.Extra, a, b uint64) uint64 {
	f := x.Atomic.Update
	switch x.Atomic.Bytes {
	case 8:
		word := (*uint64)(p)
		for {
			old := atomic.LoadUint64(word)
			if atomic.CompareAndSwapUint64(word, old, f(old, a, b)) {
				return old
			}
		}
	case 4:
		word := (*uint32)(p)
		for {
			old := atomic.LoadUint32(word)
			if atomic.CompareAndSwapUint32(word, old, uint32(f(uint64(old), a, b))) {
				return uint64(old)
			}
		}
	}
	// 16 bits: update the aligned word that contains them.
	shift := uint(uintptr(p)&2) * 8
	word := (*uint32)(unsafe.Add(p, -int(uintptr(p)&2)))
	for {
		old := atomic.LoadUint32(word)
		half := uint64(old >> shift & 0xffff)
		changed := uint32(f(half, a, b)&0xffff) << shift
		if atomic.CompareAndSwapUint32(word, old, old&^(0xffff<<shift)|changed) {
			return half
		}
	}
}

// copyLocal copies bytes within one lane's local memory.
func (w *warp) copyLocal(lane int, to, from, bytes uint64) {
	d := unsafe.Slice((*byte)(w.locateLocal(lane, to, bytes)), bytes)
	copy(d, unsafe.Slice((*byte)(w.locateLocal(lane, from, bytes)), bytes))
}

// laneBytes returns a range of one lane's local memory.
func (w *warp) laneBytes(lane int, at, bytes uint64) []byte {
	return unsafe.Slice((*byte)(w.locateLocal(lane, at, bytes)), bytes)
}

// sharedSite returns the site of a block's shared memory.
func sharedSite(memory []uint64, bytes uint64) site {
	return site{size: bytes, host: unsafe.Pointer(unsafe.SliceData(memory))}
}
