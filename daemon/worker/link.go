package worker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/session"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// faultResult is what a program gets after a fault of its worker.
const faultResult = abi.LaunchFailed

// link joins the session to the program: it is session.Program and session.Answers over the session file.
type link struct {
	file      *wire.File
	slots     *wire.Slots
	callbacks *wire.Callbacks
	output    *wire.Output
	arena     *wire.Arena
	memory    processMemory
	unhelped  atomic.Int32 // how many more large copies do without the program's help
	// frozen: the program stands still and can copy nothing.
	frozen atomic.Bool
	// copyByShim makes the program copy everything itself.
	copyByShim bool
}

func newLink(file *wire.File, memory processMemory, copyByShim bool) *link {
	return &link{
		file: file, slots: file.Slots(), callbacks: file.Callbacks(), output: file.Output(),
		memory: memory, copyByShim: copyByShim,
	}
}

// Memory is the program's memory: read and written from here, or, where the kernel refuses that, by the thread that waits
// on the slot.
func (l *link) Memory(slot uint32) gpu.HostMemory {
	switch {
	case slot == session.NoThread && l.copyByShim:
		return refusedMemory{}
	case slot == session.NoThread:
		return l.memory
	case l.copyByShim:
		return l.slots.Memory(slot)
	}
	return eitherMemory{direct: l.memory, served: l.slots.Memory(slot), unhelped: &l.unhelped, frozen: &l.frozen}
}

// share maps memory of the program here, where it is a file's.
func (l *link) share(r gpu.Range) (session.Shared, error) {
	m, err := mirror.Open(l.memory.program, r.Address, r.Bytes)
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

// eitherMemory copies small pieces by itself, and asks the program's help for large ones, or once the kernel has refused.
type eitherMemory struct {
	direct   processMemory
	served   *wire.SlotMemory
	unhelped *atomic.Int32
	frozen   *atomic.Bool
}

// servedBytes is the least size of a copy that the waiting thread helps with: it copies at the speed of memory, beside
// this process, while the kernel's way looks every page up, which takes twice as long as the copy itself.
const servedBytes = 512 << 10

// Where two threads do not get two cores, they wait for each other, and the kernel's way is the faster one: after a
// helped copy below slowRate, the next pauseCopies are done without help.
const (
	slowRate    = 2 // bytes a nanosecond
	pauseCopies = 16
)

func (m eitherMemory) ReadAt(p []byte, address int64) (int, error) {
	return m.move(p, address, m.direct.ReadAt, m.served.ReadAt)
}

func (m eitherMemory) WriteAt(p []byte, address int64) (int, error) {
	return m.move(p, address, m.direct.WriteAt, m.served.WriteAt)
}

type moving func(p []byte, address int64) (int, error)

func (m eitherMemory) move(p []byte, address int64, direct, served moving) (int, error) {
	if len(p) >= servedBytes && !m.frozen.Load() && m.unhelped.Add(-1) < 0 {
		m.unhelped.Store(0)
		began := time.Now()
		defer func() {
			if time.Since(began).Nanoseconds() > int64(len(p))/slowRate {
				m.unhelped.Store(pauseCopies)
			}
		}()
		return moveServed(p, address, direct, served)
	}
	count, err := direct(p, address)
	if errors.Is(err, ErrRefused) {
		return served(p, address)
	}
	return count, err
}

// moveServed moves the first and the last byte the kernel's way first: a range that may not be touched is an error then,
// where it would end the helping program by a signal, as the driver does. Holes between them the helping thread finds.
func moveServed(p []byte, address int64, direct, served moving) (int, error) {
	for _, at := range [...]int{0, len(p) - 1} {
		if _, err := direct(p[at:at+1], address+int64(at)); err != nil && !errors.Is(err, ErrRefused) {
			return 0, err
		}
	}
	return served(p, address)
}

// refusedMemory stands for memory that nobody can copy.
type refusedMemory struct{}

func (refusedMemory) ReadAt([]byte, int64) (int, error) { return 0, ErrRefused }

func (refusedMemory) WriteAt([]byte, int64) (int, error) { return 0, ErrRefused }
