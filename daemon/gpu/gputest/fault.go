package gputest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

func testFault(t *testing.T, b *bench) {
	healthy := b.newContext()
	s, f := b.newStream(), b.kernel("store")
	later, out := b.newEvent(false), b.alloc(4)
	bad := windowOf(b.backend).Address + 0xdead_0000
	b.submit(s, launch(f, 1, 1, out, uint32(1)), launch(f, 1, 1, bad, uint32(1)))
	// Work after a fault does not run; Submit may already return the fault.
	_ = s.Submit(launch(f, 1, 1, out, uint32(2)))
	_ = s.Submit(gpu.Record{Event: later})
	err := s.Synchronize()
	b.want("Synchronize after a stray store", err, abi.IllegalAddress)
	_, contained := b.backend.(gpu.FaultContainer)
	if err != nil &&
		(!strings.Contains(err.Error(), "store") || contained && !strings.Contains(err.Error(), fmt.Sprintf("%x", bad))) {
		t.Errorf("error does not name kernel and address: %v", err)
	}
	if contained {
		b.same("work before the fault", b.read(out, 4), words(1))
	}
	b.want("query", s.Query(), abi.IllegalAddress)
	if !s.Idle() {
		t.Error("not idle after Synchronize returned the fault")
	}
	b.want("submit", s.Submit(gpu.Empty{}), abi.IllegalAddress)
	b.want("event", later.Synchronize(), abi.IllegalAddress)
	b.want("context", b.context.Synchronize(), abi.IllegalAddress)
	b.want("fault", b.context.Fault(), abi.IllegalAddress)
	_, err = b.context.NewStream(gpu.StreamOptions{})
	b.want("new stream", err, abi.IllegalAddress)

	if !contained {
		return
	}
	b.must(healthy.Fault())
	other, err := healthy.NewStream(gpu.StreamOptions{})
	b.must(err)
	b.submit(other, gpu.Fill{Address: out, Pattern: 9, PatternBytes: 4, Columns: 1, Rows: 1})
	b.must(other.Synchronize())
	b.same("another context", b.read(out, 4), words(9))
}

func testCallsAfterFault(t *testing.T, b *bench) {
	s := b.newStream()
	work, reached, open := gate()
	var told, ran atomic.Bool
	b.submit(
		s,
		work,
		launch(b.kernel("store"), 1, 1, uint64(8), uint32(1)),
		gpu.Completion{Func: func() { told.Store(true) }},
		gpu.Call{Func: func() { ran.Store(told.Load()) }},
	)
	b.waitClosed("gate", reached)
	open()
	b.want("null address", s.Synchronize(), abi.IllegalAddress)
	if !ran.Load() {
		t.Error("a call of the session did not run")
	}
	b.submit(s, gpu.Call{Func: func() { ran.Store(false) }}, gpu.Completion{Func: func() { told.Store(false) }})
	_ = s.Synchronize()
	if ran.Load() || told.Load() {
		t.Error("a call of the session was refused after the fault")
	}
}

func testEndlessKernel(_ *testing.T, b *bench) {
	s := b.newStream()
	b.submit(s, launch(b.kernel("spin"), 2, 64))
	b.want("query", s.Query(), abi.NotReady)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = b.context.Close()
	}()
	b.waitClosed("end of close", closed)
}
