package worker

import (
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
	"github.com/phos-gpu/phos/daemon/worker/session"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// faultResult is what a program gets after a fault of its worker.
const faultResult = abi.LaunchFailed

// link joins the session to the program: it is session.Program and session.Answers over the session
// file.
type link struct {
	file      *wire.File
	slots     *wire.Slots
	callbacks *wire.Callbacks
	output    *wire.Output
	arena     *wire.Arena
	memory    processMemory
	patience  patience
	// frozen: the program stands still and can copy nothing.
	frozen atomic.Bool
	// borrow has phosd open what this process may not; nil: nobody does.
	borrow mirror.Borrow
	// copyByShim makes the program copy everything itself.
	copyByShim bool
}

func newLink(file *wire.File, memory processMemory, copyByShim bool) *link {
	return &link{
		file: file, slots: file.Slots(), callbacks: file.Callbacks(), output: file.Output(),
		memory: memory, copyByShim: copyByShim,
	}
}

// Memory is the program's memory: read and written from here, or, where the kernel refuses that, by
// the thread that waits on the slot.
func (l *link) Memory(slot uint32) gpu.HostMemory {
	switch {
	case slot == session.NoThread && l.copyByShim:
		return refusedMemory{}
	case slot == session.NoThread:
		return l.memory
	case l.copyByShim:
		return l.slots.Memory(slot)
	}
	return eitherMemory{direct: l.memory, served: l.slots.Memory(slot), patience: &l.patience, frozen: &l.frozen}
}

// share maps memory of the program here, where it is a file's.
func (l *link) share(r gpu.Range) (session.Shared, error) {
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

// Fail stores the error of a call that nobody waits for.
func (l *link) Fail(code abi.Result) { l.file.Fail(code) }

// Capturing says how many streams are being captured.
func (l *link) Capturing(streams int) { l.file.SetCapturing(streams) }

// Full asks the program to post no more work for now.
func (l *link) Full(full bool) { l.file.SetFull(full) }

// Complete stores an event's record count.
func (l *link) Complete(word uint32, count uint64) { l.file.CompleteEvent(word, count) }

// Callback asks the program to run a function.
func (l *link) Callback(callback wire.Callback) error {
	return l.callbacks.Post(callback)
}

// Print passes on what kernels print. The ring never blocks and never fails.
func (l *link) Print(text []byte) { _, _ = l.output.Write(text) }

// refusedMemory stands for memory that nobody can copy.
type refusedMemory struct{}

func (refusedMemory) ReadAt([]byte, int64) (int, error) { return 0, ErrRefused }

func (refusedMemory) WriteAt([]byte, int64) (int, error) { return 0, ErrRefused }
