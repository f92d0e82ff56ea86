package session

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/trace"
	"github.com/phos-gpu/phos/hijack/abi"
)

// traced writes down what calls do with objects. All of it happens under the session's lock.
type traced struct {
	log       *trace.Log
	count     uint64
	arguments map[abi.Call][]string
	// now is the call that is being carried out; nil between two.
	now *trace.Call
}

// Trace writes down, from now on, which calls make, use and end which objects; nil ends that.
func (s *Session) Trace(log *trace.Log) {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	if log == nil {
		s.traced, s.core.Objects.Watch = nil, nil
		return
	}
	t := &traced{log: log, arguments: map[abi.Call][]string{}}
	for o := range s.core.Objects.Records() {
		if o.Retired() {
			continue
		}
		have := trace.Have{Have: describe(o)}
		if o.Maker.Call != 0 {
			have.Call = o.Maker.Call.String()
		}
		log.Write(&have)
	}
	s.traced, s.core.Objects.Watch = t, t.watch
}

// begin notes a call before it is carried out: afterwards, what it uses may be gone.
func (t *traced) begin(s *Session, call *core.Call) {
	t.count++
	t.now = &trace.Call{
		N: t.count, Microseconds: time.Since(t.log.Begun()).Microseconds(), Call: call.Number.String(),
		Context: call.Context, Thread: call.Slot,
	}
	t.uses(s, call)
}

// end writes the call that began last to the log.
func (t *traced) end() {
	if t.now != nil {
		t.log.Write(t.now)
		t.now = nil
	}
}

// setError notes the result of the call that began last, if it is an error.
func (t *traced) setError(err error) {
	if t.now == nil || err == nil {
		return
	}
	if code := gpu.Code(err); code != abi.Success {
		t.now.Error = code.String()
	}
}

// watch is told by the objects.
func (t *traced) watch(o *object.Object, made bool) {
	now := t.now
	if now == nil {
		now = &trace.Call{Microseconds: time.Since(t.log.Begun()).Microseconds()}
		defer t.log.Write(now)
	}
	if made {
		now.Makes = append(now.Makes, describe(o))
		return
	}
	ended := describe(o)
	ended.Owner = ""
	now.Ends = append(now.Ends, ended)
}

// uses finds what a call's arguments name. A call that does not fit its number has none: it fails
// anyway.
func (t *traced) uses(s *Session, call *core.Call) {
	names, ok := t.arguments[call.Number]
	if !ok {
		names = call.Number.Arguments()
		t.arguments[call.Number] = names
	}
	rest := call.Payload
	for _, name := range names {
		if len(rest) < 8 {
			return
		}
		word := binary.LittleEndian.Uint64(rest)
		rest = rest[8:]
		words, isWords := strings.CutSuffix(name, "[]")
		plain, isBytes := strings.CutSuffix(name, "*")
		if !isWords && !isBytes {
			t.use(s, name, word)
			continue
		}
		if word > uint64(len(rest)) || (word+7)&^7 > uint64(len(rest)) {
			return
		}
		array := rest[:word]
		rest = rest[(word+7)&^7:]
		switch {
		case isWords:
			t.useAll(s, array, func(at int) string { return words + "[" + strconv.Itoa(at/8) + "]" })
		case call.Number == abi.CallLaunch:
			t.useAll(s, array, func(at int) string { return plain + "+" + strconv.Itoa(at) })
		}
	}
}

// useAll adds what each 8-byte word of an array names; name returns the label at an offset.
func (t *traced) useAll(s *Session, array []byte, name func(at int) string) {
	for at := 0; at+8 <= len(array); at += 8 {
		if word := binary.LittleEndian.Uint64(array[at:]); word != 0 {
			t.use(s, name(at), word)
		}
	}
}

// use adds what a word names, if it names anything.
func (t *traced) use(s *Session, name string, word uint64) {
	if abi.Handle(word).Kind() != abi.KindNone {
		used := ofHandle(abi.Handle(word))
		used.As = name
		t.now.Uses = append(t.now.Uses, used)
		return
	}
	start, found := s.memory.AllocationAt(word)
	if !found {
		return
	}
	if o := s.core.Objects.Get(start); o != nil {
		used := describe(o)
		used.As, used.Owner = name, ""
		t.now.Uses = append(t.now.Uses, used)
	}
}

// describe returns what the log says about an object: kind, address or handle, size, parent.
func describe(o *object.Object) trace.Object {
	told := ofHandle(o.Handle())
	switch o.Kind {
	case object.KindMemory:
		told = trace.Object{Kind: "memory", Address: fmt.Sprintf("%#x", o.ID)}
	case object.KindPinned:
		told = trace.Object{Kind: "pinned memory", Address: fmt.Sprintf("%#x", o.ID)}
	default:
	}
	if memory, ok := o.State.(interface{ Size() uint64 }); ok {
		told.Bytes = memory.Size()
	}
	if o.Parent != nil {
		told.Owner = o.Parent.Handle().String()
	}
	return told
}

func ofHandle(h abi.Handle) trace.Object { return trace.Object{Kind: h.Kind().String(), ID: h.Index()} }
