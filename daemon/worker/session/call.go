package session

import (
	"time"

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
	// waitsFor is the stream that beside waits for, for people who look.
	waitsFor abi.Handle
	long     bool
}

// Long reports, after Dispatch, whether the program waits for work that takes all cores for longer
// than falling asleep and waking does.
func (c *Call) Long() bool { return c.long }

// mode is the capture mode of the calling thread.
func (c *Call) mode() graph.Mode { return graph.Mode(c.Flags >> wire.FlagModeShift & 3) }

// maker records the call as the one that makes an object.
func (c *Call) maker() object.Maker {
	return object.Maker{Call: c.Number, Payload: append([]byte(nil), c.Payload...)}
}

// setLong notes that the program waits for work that takes all cores for long.
func (c *Call) setLong(long bool) { c.long = long }

// rest returns what the handler gave to Beside, nil for nothing.
func (c *Call) rest() func() error { return c.beside }

// waiting returns the stream that the call waits for, 0 for none.
func (c *Call) waiting() abi.Handle { return c.waitsFor }

// reset is called before the handler.
func (c *Call) reset() { c.beside, c.waitsFor = nil, 0 }

// Beside hands over the part of a call that waits. It runs on a goroutine of its own, without the
// session's lock, after the handler has returned; then the program gets its answer. A handler
// returns what Beside returns.
func (c *Call) Beside(f func() error) error {
	c.beside = f
	return nil
}

// pendingCalls bounds how many calls wait at a time; a program has one per thread, and reply slots
// for no more.
const pendingCalls = 4 * wire.SlotCount

// Dispatch runs a call and answers it, now or when what it waits for is over. Calls are dispatched
// one after the other.
func (s *Session) Dispatch(call *Call) {
	s.made.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	call.reset()
	if len(s.pending) >= pendingCalls {
		s.answer(
			call.Flags,
			call.Slot,
			call.Sequence,
			&gpu.Error{Op: "dispatch", Code: abi.OutOfMemory, Detail: "too many calls wait"},
			nil,
		)
		return
	}
	if s.traced != nil {
		s.traced.begin(s, call)
		defer s.traced.end()
	}
	out, err := s.dispatch(call)
	s.finish(call, err, out)
}

// finish answers a call after its handler, or starts what the handler left to be done beside the
// ring.
func (s *Session) finish(call *Call, err error, out wire.Reply) {
	if s.traced != nil {
		s.traced.failed(err)
	}
	if err != nil || call.rest() == nil {
		s.answer(call.Flags, call.Slot, call.Sequence, err, out)
		return
	}
	rest, flags, slot, sequence := call.rest(), call.Flags, call.Slot, call.Sequence
	s.pending[sequence] = &pendingCall{number: call.Number, stream: call.waiting(), since: time.Now()}
	go func() {
		err := rest()
		s.mu.Lock()
		delete(s.pending, sequence)
		s.mu.Unlock()
		s.answer(flags, slot, sequence, err, out)
	}()
}

// answer does not need the lock.
func (s *Session) answer(flags uint16, slot uint32, sequence uint64, err error, out wire.Reply) {
	s.completed.Add(1)
	if flags&wire.FlagWait == 0 {
		if err != nil {
			s.failLater(err)
		}
		return
	}
	code := gpu.Code(err)
	if code.Sticky() {
		s.answers.Fail(code)
	}
	if err != nil {
		s.log.Debug("call failed", "error", err)
	}
	var data []byte
	if out != nil {
		data = out.Append(make([]byte, 0, 64))
	}
	s.answers.Reply(slot, sequence, code, data)
}

// unknown is the answer to a number that no call has.
func unknown() error {
	return &gpu.Error{Op: "dispatch", Code: abi.NotSupported, Detail: "unknown call"}
}
