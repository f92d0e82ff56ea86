// Package wiretest is the program's side of the transport in Go, for tests and benchmarks of the
// worker's side. It uses the session file as hijack/shim does, with a goroutine for each Thread
// instead of a C thread. It has no driver interface. Start with New. Tested by the tests of package
// wire.
package wiretest

import (
	"encoding/binary"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Program posts frames into a session file.
type Program struct {
	memory Memory
	// view is the session file; a restore replaces it.
	view atomic.Pointer[view]

	mu       sync.Mutex // stands for WordLock
	position uint64
	sequence uint64
	threads  uint32
}

// view is a session file as its program sees it.
type view struct {
	file     *wire.File
	head     *atomic.Uint64
	tail     *atomic.Uint64
	doorbell *atomic.Uint32
	gate     *atomic.Uint32
	ring     []byte
}

func newView(file *wire.File) *view {
	return &view{
		file: file, head: file.Word64(wire.WordHead), tail: file.Word64(wire.WordTail),
		doorbell: file.Word32(wire.WordDoorbell),
		gate:     file.Word32(wire.WordGate), ring: file.Region(wire.RingOffset, wire.RingBytes),
	}
}

// Memory is the address space that a Program copies from and to when its worker asks.
type Memory interface {
	io.ReaderAt
	io.WriterAt
}

// New returns the program of a session file; memory may be nil. It copies in turns, as old programs
// do, unless the file's WordCopies is set.
func New(file *wire.File, memory Memory) *Program {
	p := &Program{memory: memory, position: file.Word64(wire.WordHead).Load()}
	p.view.Store(newView(file))
	return p
}

// Thread is one thread of the program, with its own reply slot.
type Thread struct {
	*Program
	// Context is the low half of the current context's handle.
	Context uint32
	slot    uint32
	buffer  []byte
}

// NewThread returns a new thread.
func (p *Program) NewThread() *Thread {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot := p.threads % wire.SlotCount
	p.threads++
	return &Thread{Program: p, slot: slot}
}

func (t *Thread) state(v *view) *atomic.Uint32 {
	return v.file.Word32(wire.SlotsOffset + int(t.slot)*wire.SlotBytes)
}

// Post sends an asynchronous call; in is nil for a call without parameters.
func (t *Thread) Post(call abi.Call, in wire.Reply) {
	t.passGate(0)
	t.post(call, 0, in)
}

// PostInternal is Post without the gate, for the end of a host function.
func (t *Thread) PostInternal(call abi.Call, in wire.Reply) { t.post(call, 0, in) }

// Call sends a call and waits for its reply, which it decodes into out unless that is nil. A reply
// that cannot be decoded is an error.
func (t *Thread) Call(call abi.Call, in wire.Reply, out wire.Message) (abi.Result, error) {
	t.passGate(wire.FlagWait)
	v := t.post(call, wire.FlagWait, in)
	t.await(v)
	area := v.file.Region(wire.SlotsOffset+int(t.slot)*wire.SlotBytes, wire.SlotBytes)
	result := abi.Result(binary.LittleEndian.Uint32(area[4:]))
	if out == nil {
		return result, nil
	}
	// The reply has no length; the message's encoding says how much is needed.
	return result, decodePrefix(out, area[wire.SlotHeader:])
}

// decodePrefix decodes a message from the beginning of data. Replies consist of scalars and at most
// one array.
func decodePrefix(out wire.Message, data []byte) error {
	empty := len(out.Append(nil))
	err := out.Decode(data[:empty])
	if err == nil {
		return nil
	}
	bytes := binary.LittleEndian.Uint64(data[empty-8:])
	end := uint64(empty) + (bytes+7)&^7
	if end > uint64(len(data)) {
		return err
	}
	return out.Decode(data[:end])
}

// post sends a call without waiting at the gate; in is nil for a call without parameters.
func (t *Thread) post(call abi.Call, flags uint16, in wire.Reply) *view {
	t.buffer = append(t.buffer[:0], make([]byte, wire.FrameHeader)...)
	if in != nil {
		t.buffer = in.Append(t.buffer)
	}
	return t.postFrame(call, flags, t.buffer)
}

// PostFrame posts a frame whose payload begins at wire.FrameHeader; it fills in the header.
func (t *Thread) PostFrame(call abi.Call, flags uint16, frame []byte) {
	t.passGate(flags)
	t.postFrame(call, flags, frame)
}

// postFrame completes the frame's header, writes it to the ring and wakes a sleeping worker.
func (t *Thread) postFrame(call abi.Call, flags uint16, frame []byte) *view {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)))
	binary.LittleEndian.PutUint16(frame[4:], uint16(call))
	binary.LittleEndian.PutUint16(frame[6:], flags)
	binary.LittleEndian.PutUint32(frame[8:], t.slot)
	binary.LittleEndian.PutUint32(frame[12:], t.Context)
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view.Load()
	if flags&wire.FlagWait != 0 {
		t.state(v).Store(wire.SlotIdle)
	}
	t.sequence++
	binary.LittleEndian.PutUint64(frame[16:], t.sequence)
	copy(t.reserve(v, uint64(len(frame))), frame)
	v.head.Store(t.position)
	if v.doorbell.Load() != 0 && v.doorbell.Swap(0) != 0 {
		wire.Wake(v.doorbell)
	}
	return v
}

// reserve waits for space for a frame and moves the write position past it.
func (p *Program) reserve(v *view, length uint64) []byte {
	rounded := (length + wire.FrameAlign - 1) &^ (wire.FrameAlign - 1)
	at := p.position % wire.RingBytes
	padding := uint64(0)
	if at+rounded > wire.RingBytes {
		padding = wire.RingBytes - at
	}
	for p.position+padding+rounded-v.tail.Load() > wire.RingBytes {
		runtime.Gosched()
	}
	if padding > 0 {
		pad := v.ring[at:]
		clear(pad[:wire.FrameHeader])
		binary.LittleEndian.PutUint32(pad, uint32(padding))
		at = 0
	}
	p.position += padding + rounded
	return v.ring[at:]
}

// await spins, then sleeps, until the reply is complete; it does requested copies.
func (t *Thread) await(v *view) {
	state, start := t.state(v), time.Now()
	for turn := 0; ; turn++ {
		switch seen := state.Load(); {
		case seen == wire.SlotDone:
			return
		case seen == wire.SlotService:
			t.serve(v)
			start = time.Now()
		case seen == wire.SlotPieces:
			t.servePieces(v)
			start = time.Now()
		case turn%64 != 0 || time.Since(start) < 30*time.Microsecond:
		case seen == wire.SlotIdle:
			state.CompareAndSwap(wire.SlotIdle, wire.SlotAsleep)
		default:
			wire.SleepOn(state, seen, 100*time.Millisecond)
		}
	}
}

// serve does a requested copy, as libphos does.
func (t *Thread) serve(v *view) {
	request := v.file.Region(wire.SlotsOffset+int(t.slot)*wire.SlotBytes+wire.SlotHeader, 32)
	direction, address := binary.LittleEndian.Uint64(request), binary.LittleEndian.Uint64(request[8:])
	bytes, offset := binary.LittleEndian.Uint64(request[16:]), binary.LittleEndian.Uint64(request[24:])
	bounce := v.file.Region(wire.BounceOffset, wire.BounceBytes)[offset:][:bytes]
	t.served(v, t.copyPart(direction, bounce, address))
}

// servePieces does the program's half of a copy, as libphos does.
func (t *Thread) servePieces(v *view) {
	at := wire.SlotsOffset + int(t.slot)*wire.SlotBytes
	request := v.file.Region(at+wire.SlotHeader, 32)
	direction, address := binary.LittleEndian.Uint64(request), binary.LittleEndian.Uint64(request[8:])
	bytes := binary.LittleEndian.Uint64(request[16:])
	here, there := v.file.Word32(at+wire.SlotProgramPieces), v.file.Word32(at+wire.SlotWorkerPieces)
	var err error
	for n := uint32(0); uint64(n)*wire.BouncePiece < bytes && err == nil; n++ {
		for direction == wire.CopyOut && n >= there.Load()+wire.BouncePieces ||
			direction == wire.CopyIn && n >= there.Load() {
			runtime.Gosched()
		}
		done := uint64(n) * wire.BouncePiece
		bounce := v.file.Region(
			wire.BounceOffset+int(n)%wire.BouncePieces*wire.BouncePiece,
			int(min(wire.BouncePiece, bytes-done)),
		)
		if err = t.copyPart(direction, bounce, address+done); err == nil {
			here.Store(n + 1)
		}
	}
	t.served(v, err)
}

func (t *Thread) copyPart(direction uint64, bounce []byte, address uint64) (err error) {
	if direction == wire.CopyOut {
		_, err = t.memory.ReadAt(bounce, int64(address))
	} else {
		_, err = t.memory.WriteAt(bounce, int64(address))
	}
	return err
}

// served reports the end of a copy in the slot's state and wakes the worker.
func (t *Thread) served(v *view, err error) {
	answer := uint32(wire.SlotServed)
	if err != nil {
		answer = wire.SlotAbsent
	}
	state := t.state(v)
	state.Store(answer)
	wire.Wake(state)
}
