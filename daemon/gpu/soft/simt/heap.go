package simt

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/phos-gpu/phos/hijack/abi"
)

// HeapName and HeapBytes are the name and size of the device heap for malloc in kernels. A program
// that needs a heap places it as a variable. A Placer that gives it another size must report the
// size by LimitHeap.
const (
	HeapName  = "__phos_device_heap"
	HeapBytes = 8 << 20
)

// LimitHeap sets the size of the device heap. It must be called before the first launch.
func (p *Program) LimitHeap(bytes uint64) { p.heapBytes = bytes }

// The heap keeps all its state in device memory, so that a checkpoint saves it: a lock word, then
// blocks, each with a header of 16 bytes (size including the header, used flag). The lock is a spin
// lock, so a warp holds it only while one lane allocates or frees.
const (
	heapLock   = 0
	heapFirst  = 16
	heapHeader = 16
	heapUsed   = 1
)

// heapView is the heap as one lane of a warp accesses it.
type heapView struct {
	w    *warp
	lane int
	base uint64
	// end is the heap's size.
	end uint64
}

// heap returns a lane's view of the device heap.
func (w *warp) heap(lane int) *heapView {
	program := w.block.runner.run.program
	return &heapView{w, lane, program.heap, program.heapBytes}
}

// lock spins. The holder is another goroutine in allocate or release. It may wait for a chunk, and
// whatever it waits for may wait for this warp's spans: they are given up at each turn.
func (h *heapView) lock() {
	r := h.w.block.runner
	for !atomic.CompareAndSwapUint64(h.w.heapWord(h.lane, h.base+heapLock), 0, 1) {
		runtime.Gosched()
		r.reader.Tick()
		r.refresh()
	}
}

func (h *heapView) unlock() { atomic.StoreUint64(h.w.heapWord(h.lane, h.base+heapLock), 0) }

func (h *heapView) get(at uint64) uint64    { return *h.w.heapWord(h.lane, h.base+at) }
func (h *heapView) set(at uint64, v uint64) { *h.w.heapWord(h.lane, h.base+at) = v }

// allocate is malloc. It returns the first free block that is large enough, or 0.
func (h *heapView) allocate(bytes uint64) uint64 {
	if bytes == 0 || bytes > h.end {
		return 0
	}
	need := (bytes+15)&^15 + heapHeader
	h.lock()
	defer h.unlock()
	for at := uint64(heapFirst); at < h.end; {
		size, used := h.block(at)
		for !used && at+size < h.end { // merge free neighbours
			more, busy := h.block(at + size)
			if busy {
				break
			}
			size += more
		}
		if !used && size >= need {
			if size-need < 2*heapHeader {
				need = size
			} else {
				h.set(at+need, size-need)
				h.set(at+need+8, 0)
			}
			h.set(at, need)
			h.set(at+8, heapUsed)
			return h.base + at + heapHeader
		}
		at += size
	}
	return 0
}

// block reads a header. A heap that was never used is one free block.
func (h *heapView) block(at uint64) (size uint64, used bool) {
	size = h.get(at)
	if size == 0 {
		size = h.end - at
	}
	if size > h.end-at || size < heapHeader {
		panic(h.corrupt(at))
	}
	return size, h.get(at+8) == heapUsed
}

// release is free. Address 0 is ignored.
func (h *heapView) release(address uint64) {
	if address == 0 {
		return
	}
	at := address - h.base - heapHeader
	if at < heapFirst || at >= h.end || at%16 != 0 {
		panic(h.corrupt(at))
	}
	h.lock()
	defer h.unlock()
	if h.get(at+8) != heapUsed {
		panic(h.corrupt(at))
	}
	h.set(at+8, 0)
}

// corrupt returns the fault for a broken header or a bad pointer.
func (h *heapView) corrupt(at uint64) *Fault {
	f := h.w.fault(h.lane, abi.IllegalAddress, h.base+at)
	f.Detail = fmt.Sprintf("device heap: no valid block at offset %d", at)
	return f
}
