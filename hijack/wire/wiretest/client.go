// Package wiretest is the program's half of the transport in Go, for tests and benchmarks of the worker's half. It
// does what hijack/shim does with the session file, one goroutine to a Thread in place of a C thread; it has none of
// the driver interface. Start with New.
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
	file     *wire.File
	memory   Memory
	head     *atomic.Uint64
	tail     *atomic.Uint64
	doorbell *atomic.Uint32
	ring     []byte

	mu       sync.Mutex // what WordLock is between threads of one process
	position uint64
	sequence uint64
	threads  uint32
}

// Memory is the address space that a Program copies from and to when its worker asks.
type Memory interface {
	io.ReaderAt
	io.WriterAt
}

// New makes the program of a session file; memory may be nil.
func New(file *wire.File, memory Memory) *Program {
	return &Program{
		file: file, memory: memory,
		head: file.Word64(wire.WordHead), tail: file.Word64(wire.WordTail), doorbell: file.Word32(wire.WordDoorbell),
		ring: file.Region(wire.RingOffset, wire.RingBytes), position: file.Word64(wire.WordHead).Load(),
	}
}

// Thread is one thread of the program, with a reply slot of its own.
type Thread struct {
	*Program
	// Context is the low half of the current context's handle.
	Context uint32
	slot    uint32
	state   *atomic.Uint32
	buffer  []byte
}

// NewThread makes a thread.
func (p *Program) NewThread() *Thread {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot := p.threads % wire.SlotCount
	p.threads++
	return &Thread{Program: p, slot: slot, state: p.file.Word32(wire.SlotsOffset + int(slot)*wire.SlotBytes)}
}

// Post sends a call that is not answered; in is nil for a call without parameters.
func (t *Thread) Post(call abi.Call, in wire.Reply) {
	t.post(call, 0, in)
}

// Call sends a call and waits for its reply, which it decodes into out unless that is nil. A reply that cannot be
// decoded is an error.
func (t *Thread) Call(call abi.Call, in wire.Reply, out wire.Message) (abi.Result, error) {
	t.state.Store(wire.SlotIdle)
	t.post(call, wire.FlagWait, in)
	t.await()
	area := t.file.Region(wire.SlotsOffset+int(t.slot)*wire.SlotBytes, wire.SlotBytes)
	result := abi.Result(binary.LittleEndian.Uint32(area[4:]))
	if out == nil {
		return result, nil
	}
	// The reply has no length: as much as the message needs, which its own encoding tells.
	return result, decodePrefix(out, area[wire.SlotHeader:])
}

// decodePrefix decodes a message from the beginning of data. Replies consist of scalars and at most one array.
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

func (t *Thread) post(call abi.Call, flags uint16, in wire.Reply) {
	t.buffer = append(t.buffer[:0], make([]byte, wire.FrameHeader)...)
	if in != nil {
		t.buffer = in.Append(t.buffer)
	}
	t.PostFrame(call, flags, t.buffer)
}

// PostFrame posts a frame whose payload begins at wire.FrameHeader; it fills in the header.
func (t *Thread) PostFrame(call abi.Call, flags uint16, frame []byte) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)))
	binary.LittleEndian.PutUint16(frame[4:], uint16(call))
	binary.LittleEndian.PutUint16(frame[6:], flags)
	binary.LittleEndian.PutUint32(frame[8:], t.slot)
	binary.LittleEndian.PutUint32(frame[12:], t.Context)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sequence++
	binary.LittleEndian.PutUint64(frame[16:], t.sequence)
	copy(t.reserve(uint64(len(frame))), frame)
	t.head.Store(t.position)
	if t.doorbell.Load() != 0 && t.doorbell.Swap(0) != 0 {
		wire.Wake(t.doorbell)
	}
}

// reserve finds room for a frame of so many bytes and moves the writing position behind it.
func (p *Program) reserve(length uint64) []byte {
	rounded := (length + wire.FrameAlign - 1) &^ (wire.FrameAlign - 1)
	at := p.position % wire.RingBytes
	padding := uint64(0)
	if at+rounded > wire.RingBytes {
		padding = wire.RingBytes - at
	}
	for p.position+padding+rounded-p.tail.Load() > wire.RingBytes {
		runtime.Gosched()
	}
	if padding > 0 {
		pad := p.ring[at:]
		clear(pad[:wire.FrameHeader])
		binary.LittleEndian.PutUint32(pad, uint32(padding))
		at = 0
	}
	p.position += padding + rounded
	return p.ring[at:]
}

// await spins, then sleeps, until the reply is there; it copies when asked to.
func (t *Thread) await() {
	start := time.Now()
	for turn := 0; ; turn++ {
		switch seen := t.state.Load(); {
		case seen == wire.SlotDone:
			return
		case seen == wire.SlotService:
			t.serve()
			start = time.Now()
		case turn%64 != 0 || time.Since(start) < 30*time.Microsecond:
		case seen == wire.SlotIdle:
			t.state.CompareAndSwap(wire.SlotIdle, wire.SlotAsleep)
		default:
			wire.SleepOn(t.state, seen, 100*time.Millisecond)
		}
	}
}

// serve does one copy for the worker, as libphos does.
func (t *Thread) serve() {
	request := t.file.Region(wire.SlotsOffset+int(t.slot)*wire.SlotBytes+wire.SlotHeader, 32)
	direction, address := binary.LittleEndian.Uint64(request), binary.LittleEndian.Uint64(request[8:])
	bytes, offset := binary.LittleEndian.Uint64(request[16:]), binary.LittleEndian.Uint64(request[24:])
	bounce := t.file.Region(wire.BounceOffset, wire.BounceBytes)[offset:][:bytes]
	copyPart := t.memory.WriteAt
	if direction == wire.CopyOut {
		copyPart = t.memory.ReadAt
	}
	answer := uint32(wire.SlotServed)
	if _, err := copyPart(bounce, int64(address)); err != nil {
		answer = wire.SlotAbsent
	}
	t.state.Store(answer)
	wire.Wake(t.state)
}

// TakeCallback takes the oldest callback, false where there is none.
func (p *Program) TakeCallback() (wire.Callback, bool) {
	head, tail := p.file.Word64(wire.WordCallbackHead), p.file.Word64(wire.WordCallbackTail)
	at := tail.Load()
	if head.Load() == at {
		return wire.Callback{}, false
	}
	record := p.file.Region(wire.CallbackOffset, wire.CallbackBytes)[at%wire.CallbackBytes:]
	callback := wire.Callback{
		Kind:     binary.LittleEndian.Uint32(record),
		Function: binary.LittleEndian.Uint64(record[8:]),
		UserData: binary.LittleEndian.Uint64(record[16:]),
		Stream:   abi.Handle(binary.LittleEndian.Uint64(record[24:])),
		Status:   abi.Result(binary.LittleEndian.Uint32(record[32:])),
		ID:       binary.LittleEndian.Uint64(record[40:]),
	}
	tail.Store(at + wire.CallbackRecord)
	return callback, true
}

// Output takes what kernels have printed.
func (p *Program) Output() string {
	head, tail := p.file.Word64(wire.WordOutputHead), p.file.Word64(wire.WordOutputTail)
	ring := p.file.Region(wire.OutputOffset, wire.OutputBytes)
	var text []byte
	to := head.Load()
	for at := tail.Load(); at < to; at++ {
		text = append(text, ring[at%wire.OutputBytes])
	}
	tail.Store(to)
	return string(text)
}
