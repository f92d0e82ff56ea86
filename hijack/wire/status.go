package wire

import "github.com/phos-gpu/phos/hijack/abi"

// Fail stores the error of an asynchronous call. The first error stays until the program has read
// it; a sticky one stays forever.
func (f *File) Fail(code abi.Result) {
	if code == abi.Success {
		return
	}
	if code.Sticky() {
		f.Word32(WordSticky).CompareAndSwap(0, uint32(code))
	}
	f.Word32(WordError).CompareAndSwap(0, uint32(code))
}

// SetDamage tells the program, once, why memory of its image is lost. The program prints it on its
// standard error with the first call that fails because of that.
func (f *File) SetDamage(text string) {
	length := copy(f.data[DamageText:][:DamageBytes-1], text)
	f.data[DamageText+length] = 0
	f.Word32(WordDamage).CompareAndSwap(0, 1)
}

// SetCapturing publishes how many streams are being captured.
func (f *File) SetCapturing(streams int) { f.Word32(WordCapturing).Store(uint32(streams)) }

// SetGate closes (true) or opens the gate at which the program's entries wait.
func (f *File) SetGate(closed bool) {
	f.setGate(GateClosed, closed)
}

// Holding reports whether a thread of the program holds what no checkpoint can save. Once the gate
// is closed, no thread begins to.
func (f *File) Holding() bool { return f.Word32(WordHolds).Load() != 0 }

// SetFull stops (true) or allows further asynchronous calls of the program.
func (f *File) SetFull(full bool) { f.setGate(GateFull, full) }

func (f *File) setGate(bit uint32, set bool) {
	word := f.Word32(WordGate)
	if set {
		word.Or(bit)
		return
	}
	word.And(^bit)
	Wake(word)
}

// CompleteEvent stores the value of an event's completion word. An index out of range is ignored.
func (f *File) CompleteEvent(word uint32, count uint64) {
	if word < EventCount {
		f.Word64(EventsOffset + 8*int(word)).Store(count)
	}
}
