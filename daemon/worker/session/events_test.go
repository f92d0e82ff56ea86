package session

import (
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// TestRefusedRecord refuses records of an event: before its first, while one is under way, and
// after it.
func TestRefusedRecord(t *testing.T) {
	p := newProgram(t)
	event, word := p.event()
	record := func(stream abi.Handle, count uint64) error {
		return p.do(abi.CallEventRecord, &wire.EventRecord{Event: event, Stream: stream, Count: count}, nil)
	}
	refused := func(count uint64) {
		t.Helper()
		if err := record(abi.NewHandle(abi.KindStream, 999), count); err == nil {
			t.Fatal("a record in no stream is accepted")
		}
	}
	said := func(want uint64) {
		t.Helper()
		if got := p.word(word); got != want {
			t.Errorf("the word says %d, want %d", got, want)
		}
	}
	refused(1)
	said(1)
	gate, open := p.gate()
	defer open()
	p.ok(abi.CallLaunch, launchOf(gate, abi.StreamLegacy, 0), nil)
	if err := record(abi.StreamLegacy, 2); err != nil {
		t.Fatal(err)
	}
	refused(3)
	said(1) // the second is not reached
	open()
	syncContext(p)
	said(3)
	refused(4)
	said(4)
}

// TestTellingHoldsNothing: recording events, freeing memory and counting what is under way holds no
// stream.
func TestTellingHoldsNothing(t *testing.T) {
	p := newProgram(t)
	event, word := p.event()
	stream, address := p.stream(core.NonBlocking), p.alloc(4096)
	gate, open := p.gate()
	defer open()
	p.ok(abi.CallLaunch, launchOf(gate, stream, 0), nil)
	const rounds = 2 * core.MarkUnits
	nothing := p.kernel("nothing", func(gpu.Memory, []byte) error { return nil })
	for i := range uint64(rounds) {
		p.ok(abi.CallLaunch, launchOf(nothing, stream, 0), nil)
		p.ok(abi.CallEventRecord, &wire.EventRecord{Event: event, Stream: stream, Count: i + 1}, nil)
	}
	p.ok(abi.CallMemFree, &wire.MemFree{Dptr: address}, nil)
	open()
	syncContext(p)
	if got := p.word(word); got != rounds {
		t.Errorf("the word says %d, want %d", got, rounds)
	}
	if held := p.backend.held; held != 0 {
		t.Errorf("the stream was held %d times", held)
	}
}

// TestEventOfGraph: a launch of a graph is no record that the program counts, so the word must not
// answer for it.
func TestEventOfGraph(t *testing.T) {
	p := newProgram(t)
	event, word := p.event()
	record := &wire.EventRecord{Event: event, Stream: abi.StreamLegacy, Count: 1}
	p.ok(abi.CallEventRecord, record, nil)
	syncContext(p)
	gate, open := p.gate()
	defer open()
	g := p.graph()
	waits := p.kernelNode(g, gate, 0)
	node := &wire.GraphAddEventRecordNode{HGraph: g, Event: event, Dependencies: wire.MakeWords(waits)}
	p.ok(abi.CallGraphAddEventRecordNode, node, &wire.GraphAddEventRecordNodeReply{})
	if got := p.word(word); got != 1 {
		t.Errorf("before the graph can be launched the word says %d, want 1", got)
	}
	exec := p.instantiate(g)
	asks := func() {
		t.Helper()
		if got := p.word(word); got != wire.EventAsk {
			t.Errorf("the word says %d, want %d", got, uint64(wire.EventAsk))
		}
	}
	asks()
	p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec}, nil)
	p.want(abi.NotReady, abi.CallEventQuery, &wire.EventQuery{Event: event}, nil)
	open()
	p.ok(abi.CallEventSynchronize, &wire.EventSynchronize{Event: event}, nil)
	p.ok(abi.CallEventQuery, &wire.EventQuery{Event: event}, nil)
	record.Count = 2
	p.ok(abi.CallEventRecord, record, nil)
	syncContext(p)
	asks()
	// The word itself is as good as new for the next event.
	p.ok(abi.CallGraphExecDestroy, &wire.GraphExecDestroy{HGraphExec: exec}, nil)
	p.ok(abi.CallEventDestroy, &wire.EventDestroy{HEvent: event}, nil)
	if _, again := p.event(); again != word || p.word(word) != 0 {
		t.Errorf("the next event has word %d, which says %d", again, p.word(again))
	}
}
