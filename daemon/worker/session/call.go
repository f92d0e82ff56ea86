package session

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// pendingCalls bounds how many calls wait at a time; a program has one per thread, and reply slots
// for no more.
const pendingCalls = 4 * wire.SlotCount

// Dispatch runs a call and answers it, now or when what it waits for is over. Calls are dispatched
// one after the other.
func (s *Session) Dispatch(call *core.Call) {
	s.made.Add(1)
	if call.Flags&wire.FlagWait != 0 {
		s.awaited.Add(1)
	}
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	call.Reset()
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
func (s *Session) finish(call *core.Call, err error, out wire.Reply) {
	if s.traced != nil {
		s.traced.setError(err)
	}
	if err != nil || call.Detached() == nil {
		s.answer(call.Flags, call.Slot, call.Sequence, err, out)
		return
	}
	rest, flags, slot, sequence := call.Detached(), call.Flags, call.Slot, call.Sequence
	s.pending[sequence] = &pendingCall{number: call.Number, stream: call.Waiting(), since: time.Now()}
	go func() {
		err := s.contained(rest)
		s.core.Mu.Lock()
		delete(s.pending, sequence)
		s.core.Mu.Unlock()
		s.answer(flags, slot, sequence, err, out)
	}()
}

// contained runs what a handler left, and turns a panic into an error, so that the call is answered
// and the worker lives.
func (s *Session) contained(rest func() error) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			s.core.Log.Error("panic in call", "panic", failure, "stack", string(debug.Stack()))
			err = &gpu.Error{Op: "call", Code: abi.Unknown, Detail: fmt.Sprint(failure)}
		}
	}()
	return rest()
}

// answer does not need the lock.
func (s *Session) answer(flags uint16, slot uint32, sequence uint64, err error, out wire.Reply) {
	s.completed.Add(1)
	if flags&wire.FlagWait == 0 {
		if err != nil {
			s.core.FailLater(err)
		}
		return
	}
	code := gpu.Code(err)
	if code.Sticky() {
		s.core.Answers.Fail(code)
	}
	if err != nil {
		s.core.Log.Debug("call failed", "error", err)
	}
	var data []byte
	if out != nil {
		data = out.Append(make([]byte, 0, 64))
	}
	s.core.Answers.Reply(slot, sequence, code, data)
}

// dispatch runs a call's handler in the topic that has it.
func (s *Session) dispatch(call *core.Call) (wire.Reply, error) {
	if int(call.Number) < len(topicOf) {
		if t := s.topics[topicOf[call.Number]]; t != nil {
			return t.Dispatch(call)
		}
	}
	return nil, core.ErrUnknownCall
}
