package simt

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/cformat"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
)

// maxStringBytes is the maximum length of strings that kernels print.
const maxStringBytes = 64 << 10

// builtin runs a function that the interpreter supplies, lane by lane.
func (w *warp) builtin(in *code.Inst, mask uint32) {
	site := in.X.Call
	var text []byte
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m)
		base := w.v32(w.block.kernel.Frame)[lane&31]
		var args [8]uint64
		for i, move := range site.Args {
			args[i&7] = w.readPlace(move.From, base, lane, move.Bytes)
		}
		result := uint64(0)
		switch site.Builtin {
		case code.Vprintf:
			line := w.formatPrintf(lane, args[0], args[1])
			text = append(text, line...)
			result = uint64(len(line))
		case code.AssertFail:
			w.assertFail(lane, args)
		case code.Malloc:
			result = w.heap(lane).allocate(args[0])
		case code.Free:
			w.heap(lane).release(args[0])
		}
		for _, move := range site.Rets {
			w.writePlace(move.To, base, lane, move.Bytes, result)
		}
	}
	if len(text) > 0 {
		w.printText(text)
	}
}

// printText passes text to the program's output. Output may block, so the warp holds no spans while
// it waits.
func (w *warp) printText(text []byte) {
	r := w.block.runner
	r.reader.Exit()
	r.run.printText(text)
	r.reader.Enter()
	r.refresh()
}

// formatPrintf formats one lane's printf. The arguments are consecutive, each aligned to its size.
func (w *warp) formatPrintf(lane int, format, arguments uint64) []byte {
	at := arguments
	next := func(bytes uint64) uint64 {
		at = (at + bytes - 1) &^ (bytes - 1)
		p := w.genericPointer(lane, at, bytes)
		at += bytes
		if bytes == 4 {
			return uint64(*(*uint32)(p))
		}
		return *(*uint64)(p)
	}
	text := func(address uint64) string { return w.readString(lane, address) }
	return cformat.Append(nil, w.readString(lane, format), next, text)
}

// readString reads a zero-terminated string at a generic address.
func (w *warp) readString(lane int, address uint64) string {
	var out []byte
	for len(out) < maxStringBytes {
		c := *(*byte)(w.genericPointer(lane, address+uint64(len(out)), 1))
		if c == 0 {
			break
		}
		out = append(out, c)
	}
	return string(out)
}

// genericPointer translates a generic address for reading.
func (w *warp) genericPointer(lane int, address, bytes uint64) unsafe.Pointer {
	if address&(bytes-1) != 0 {
		panic(w.fault(lane, abi.MisalignedAddress, address))
	}
	if address-space.SharedBase < space.CodeBase-space.SharedBase {
		return w.locateWindow(lane, address, bytes, false)
	}
	s := w.findSpan(lane, address, false)
	if bytes > uint64(len(s.Memory))-(address-s.Address) {
		panic(w.fault(lane, abi.IllegalAddress, address))
	}
	return unsafe.Pointer(&s.Memory[address-s.Address])
}

// assertFail prints the message of a failed assertion and ends the kernel. Its arguments are
// message, file, line and function.
func (w *warp) assertFail(lane int, args [8]uint64) {
	message, file, function := w.readString(lane, args[0]), w.readString(lane, args[1]), w.readString(lane, args[3])
	thread, block := w.threadIndex(lane), w.block.index
	w.printText(
		fmt.Appendf(
			nil,
			"%s:%d: %s: block: [%d,%d,%d], thread: [%d,%d,%d] Assertion `%s` failed.\n",
			file,
			uint32(args[2]),
			function,
			block[0],
			block[1],
			block[2],
			thread[0],
			thread[1],
			thread[2],
			message,
		),
	)
	f := w.fault(lane, abi.Assert, 0)
	f.Detail = message
	panic(f)
}

// heapWord returns a pointer to eight bytes of device memory for writing.
func (w *warp) heapWord(lane int, address uint64) *uint64 {
	s := w.findSpan(lane, address, true)
	return (*uint64)(unsafe.Pointer(&s.Memory[address-s.Address]))
}
