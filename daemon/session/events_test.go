package session

import (
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// TestRefusedRecord refuses records of an event: before its first, while one is under way, and after it.
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
