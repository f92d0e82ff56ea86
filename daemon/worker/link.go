package worker

import (
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// faultResult is the result of every call after a fault of the worker.
const faultResult = abi.LaunchFailed

// link connects the session to the program: it implements session.Program and session.Answers on
// the session file.
type link struct {
	file      *wire.File
	slots     *wire.Slots
	callbacks *wire.Callbacks
	output    *wire.Output
	arena     *wire.Arena
	memory    processMemory
	throttle  helpThrottle
	// frozen is set while the program is frozen and cannot copy.
	frozen atomic.Bool
	// borrow asks phosd to open files that this process may not open. It may be nil.
	borrow mirror.Borrow
	// copyByShim makes libphos.so do all copies.
	copyByShim bool
}

func newLink(file *wire.File, memory processMemory, copyByShim bool) *link {
	return &link{
		file: file, slots: file.Slots(), callbacks: file.Callbacks(), output: file.Output(),
		memory: memory, copyByShim: copyByShim,
	}
}

// Memory returns the program's memory. Copies are made from this process or, if the kernel refuses
// that, by the thread that waits on the slot.
func (l *link) Memory(slot uint32) gpu.HostMemory {
	switch {
	case slot == session.NoThread && l.copyByShim:
		return refusedMemory{}
	case slot == session.NoThread:
		return l.memory
	case l.copyByShim:
		return l.slots.Memory(slot)
	}
	return combinedMemory{direct: l.memory, served: l.slots.Memory(slot), throttle: &l.throttle, frozen: &l.frozen}
}

// share maps memory of the program into this process if it is a shared mapping of a file. If it is
// not, libphos.so makes it one, by a userfaultfd of its own.
func (l *link) share(r gpu.Range) (session.Shared, error) {
	l.memory.tracker.Release(l.memory.program.PID, r.Address, r.Address+r.Bytes)
	m, err := mirror.Open(l.memory.program, r.Address, r.Bytes, l.borrow)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Reply completes a waiting call.
func (l *link) Reply(slot uint32, sequence uint64, code abi.Result, data []byte) {
	l.slots.Reply(slot, sequence, code, data)
}

// Fail stores the error of an asynchronous call.
func (l *link) Fail(code abi.Result) { l.file.Fail(code) }

// Capturing publishes how many streams are being captured.
func (l *link) Capturing(streams int) { l.file.SetCapturing(streams) }

// Full asks the program to post no more work for now.
func (l *link) Full(full bool) { l.file.SetFull(full) }

// Complete publishes an event's record count.
func (l *link) Complete(word uint32, count uint64) { l.file.CompleteEvent(word, count) }

// Callback asks the program to run a function.
func (l *link) Callback(callback wire.Callback) error {
	return l.callbacks.Post(callback)
}

// Print passes on the output of device printf. The output ring never blocks and never fails.
func (l *link) Print(text []byte) { _, _ = l.output.Write(text) }

// refusedMemory refuses every copy: neither this process nor a thread of the program can do it.
type refusedMemory struct{}

func (refusedMemory) ReadAt([]byte, int64) (int, error) { return 0, ErrRefused }

func (refusedMemory) WriteAt([]byte, int64) (int, error) { return 0, ErrRefused }
