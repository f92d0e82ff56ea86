package core

import (
	"encoding/binary"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Call is one frame on its way through the session.
type Call struct {
	Number abi.Call
	// Flags are the frame's: whether the program waits, and its thread's capture mode.
	Flags uint16
	// Slot is the reply slot of the thread that called.
	Slot uint32
	// Context is the low half of the thread's current context, 0 for none.
	Context uint32
	// Sequence counts the frames of the session.
	Sequence uint64
	// Payload is a private copy of the arguments. It is the caller's again when Dispatch has returned,
	// so a handler copies what it keeps.
	Payload []byte

	beside func() error
	// waitsFor is the stream that beside waits for, for Progress.
	waitsFor abi.Handle
	long     bool
}

// Long reports, after Dispatch, whether the program waits for work that takes all cores for longer
// than falling asleep and waking does.
func (c *Call) Long() bool { return c.long }

// Mode is the capture mode of the calling thread.
func (c *Call) Mode() graph.Mode { return graph.Mode(c.Flags >> wire.FlagModeShift & 3) }

// Maker records the call as the one that makes an object.
func (c *Call) Maker() object.Maker {
	return object.Maker{Call: c.Number, Payload: append([]byte(nil), c.Payload...)}
}

// SetLong notes that the program waits for work that takes all cores for long.
func (c *Call) SetLong(long bool) { c.long = long }

// Detached returns the function that the handler gave to Detach, nil for none.
func (c *Call) Detached() func() error { return c.beside }

// Waiting returns the stream that the call waits for, 0 for none.
func (c *Call) Waiting() abi.Handle { return c.waitsFor }

// Reset is called before the handler.
func (c *Call) Reset() { c.beside, c.waitsFor = nil, 0 }

// Detach hands over the part of a call that waits. It runs on a goroutine of its own, without the
// session's lock, after the handler has returned; then the program gets its answer. A handler
// returns what Detach returns.
func (c *Call) Detach(f func() error) error {
	c.beside = f
	return nil
}

// Put writes an answer that has no room in a reply slot to the program's memory; nothing of it
// where it does not fit.
func (s *Core) Put(call *Call, address, capacity uint64, data []byte) error {
	if uint64(len(data)) > capacity || len(data) == 0 {
		return nil
	}
	program := s.Program.Memory(call.Slot)
	return call.Detach(func() error {
		if _, err := program.WriteAt(data, int64(address)); err != nil {
			return &gpu.Error{Op: "write program memory", Code: abi.InvalidValue, Detail: err.Error()}
		}
		return nil
	})
}

// PutHandles writes as many handles as there is room for.
func (s *Core) PutHandles(call *Call, address, capacity uint64, handles []abi.Handle) error {
	handles = handles[:min(uint64(len(handles)), capacity)]
	data := make([]byte, 0, 8*len(handles))
	for _, h := range handles {
		data = binary.LittleEndian.AppendUint64(data, uint64(h))
	}
	return s.Put(call, address, uint64(len(data)), data)
}
