package gputest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// timeout is how long a test waits for an event before it fails.
const timeout = 30 * time.Second

// waitClosed waits until a channel is closed.
func (b *bench) waitClosed(what string, c <-chan struct{}) {
	b.t.Helper()
	select {
	case <-c:
	case <-time.After(timeout):
		b.t.Fatalf("%s: timeout", what)
	}
}

// gate returns work that blocks a stream until open is called.
func gate() (work gpu.Work, reached <-chan struct{}, open func()) {
	in, out := make(chan struct{}), make(chan struct{})
	return gpu.Call{Func: func() { close(in); <-out }}, in, func() { close(out) }
}

func testOrder(t *testing.T, b *bench) {
	const n = 2000
	s := b.newStream()
	address := b.alloc(4)
	var seen []byte
	for i := range n {
		b.submit(s,
			gpu.Fill{Address: address, Pattern: uint32(i), PatternBytes: 1, Columns: 1, Rows: 1},
			gpu.Call{Func: func() { seen = append(seen, b.read(address, 1)[0]) }},
		)
	}
	b.must(s.Synchronize())
	if len(seen) != n {
		t.Fatalf("%d of %d calls ran before Synchronize returned", len(seen), n)
	}
	for i, value := range seen {
		if value != byte(i) {
			t.Fatalf("call %d: memory is %d", i, value)
		}
	}
}

// testConcurrency runs two streams, one of which is blocked. A backend that runs all streams in one
// order has a method Serial.
func testConcurrency(t *testing.T, b *bench) {
	if serial, asks := b.backend.(interface{ Serial() bool }); asks && serial.Serial() {
		t.Skip("this backend runs all streams in one order")
	}
	first, second := b.newStream(), b.newStream()
	work, reached, open := gate()
	b.submit(first, work)
	b.waitClosed("first stream", reached)
	done := make(chan struct{})
	b.submit(
		second,
		gpu.Fill{Address: b.alloc(4), PatternBytes: 4, Columns: 1, Rows: 1},
		gpu.Call{Func: func() { close(done) }},
	)
	b.waitClosed("second stream beside a blocked one", done)
	open()
	b.must(b.context.Synchronize())
}

func testQuery(t *testing.T, b *bench) {
	s, e := b.newStream(), b.newEvent(false)
	b.must(s.Query())
	idle := s.Idle()
	b.must(e.Query()) // never recorded counts as reached
	b.must(e.Synchronize())
	work, reached, open := gate()
	b.submit(s, work, gpu.Record{Event: e})
	b.waitClosed("gate", reached)
	b.want("query of a busy stream", s.Query(), abi.NotReady)
	b.want("query of an event not reached", e.Query(), abi.NotReady)
	busy := !s.Idle()
	open()
	b.must(e.Synchronize())
	b.must(e.Query())
	b.must(s.Synchronize())
	b.must(s.Query())
	if !idle || !busy || !s.Idle() {
		t.Errorf("idle: got %v before, %v behind a gate, %v after", idle, busy, s.Idle())
	}
}

func testStreamClose(t *testing.T, b *bench) {
	s := b.newStream()
	work, reached, open := gate()
	var ran atomic.Bool
	b.submit(s, work, gpu.Call{Func: func() { ran.Store(true) }})
	b.waitClosed("gate", reached)
	b.must(s.Close()) // does not wait
	b.want("work for a closed stream", s.Submit(gpu.Empty{}), abi.InvalidHandle)
	open()
	b.must(b.context.Synchronize())
	if !ran.Load() {
		t.Error("Synchronize of the context returned before the work of a closed stream")
	}
	b.want("close twice", s.Close(), abi.InvalidHandle)
}

func testAwait(t *testing.T, b *bench) {
	first, second, e := b.newStream(), b.newStream(), b.newEvent(false)
	b.submit(second, gpu.Await{Event: e}) // never recorded: no wait
	b.must(second.Synchronize())

	address := b.alloc(4)
	const rounds = 200
	for i := range rounds {
		b.submit(
			first,
			gpu.Fill{Address: address, Pattern: uint32(i), PatternBytes: 4, Columns: 1, Rows: 1},
			gpu.Record{Event: e},
		)
		saw := make(chan uint32, 1)
		b.submit(
			second,
			gpu.Await{Event: e},
			gpu.Call{Func: func() { saw <- uint32(b.read(address, 1)[0]) }},
			gpu.Record{Event: e},
		)
		b.submit(first, gpu.Await{Event: e})
		if got := <-saw; got != uint32(byte(i)) {
			t.Fatalf("round %d: memory is %d", i, got)
		}
	}
	b.must(b.context.Synchronize())
}

// testRerecord checks that a wait is for the recording at submission, not for a later one.
func testRerecord(_ *testing.T, b *bench) {
	first, second, e := b.newStream(), b.newStream(), b.newEvent(false)
	b.submit(first, gpu.Record{Event: e})
	b.must(first.Synchronize())
	b.submit(second, gpu.Await{Event: e})
	work, reached, open := gate()
	b.submit(first, work, gpu.Record{Event: e})
	b.waitClosed("gate", reached)
	b.must(second.Synchronize())
	b.want("event recorded again", e.Query(), abi.NotReady)
	open()
	b.must(e.Synchronize())
	b.must(b.context.Synchronize())
}

func testElapsed(t *testing.T, b *bench) {
	s, start, end, plain := b.newStream(), b.newEvent(true), b.newEvent(true), b.newEvent(false)
	_, err := end.ElapsedSince(start)
	b.want("time of events never recorded", err, abi.InvalidHandle)
	work, reached, open := gate()
	b.submit(s, gpu.Record{Event: start}, gpu.Record{Event: plain}, work, gpu.Record{Event: end})
	b.waitClosed("gate", reached)
	_, err = end.ElapsedSince(start)
	b.want("time of an event not reached", err, abi.NotReady)
	const pause = 20 * time.Millisecond
	<-time.After(pause)
	open()
	b.must(s.Synchronize())
	milliseconds, err := end.ElapsedSince(start)
	b.must(err)
	if milliseconds < float32(pause/time.Millisecond) {
		t.Errorf("got %v ms, but the stream was blocked for %v", milliseconds, pause)
	}
	if back, err := start.ElapsedSince(end); err != nil || back != -milliseconds {
		t.Errorf("time in reverse order: got %v, %v", back, err)
	}
	_, err = end.ElapsedSince(plain)
	b.want("time of an event without timing", err, abi.InvalidHandle)
	b.must(start.Close())
	b.want("record of a destroyed event", s.Submit(gpu.Record{Event: start}), abi.InvalidHandle)
}

func testClose(t *testing.T, b *bench) {
	free, _ := b.context.Memory().Usage()
	c := b.newContext()
	s, err := c.NewStream(gpu.StreamOptions{})
	b.must(err)
	e, err := c.NewEvent(gpu.EventOptions{})
	b.must(err)
	b.must(c.Memory().Map(gpu.Range{Address: b.next, Bytes: 3 * tableBytes}))
	work, reached, open := gate()
	var ran atomic.Bool
	var told atomic.Bool
	b.submit(
		s,
		work,
		gpu.Record{Event: e},
		gpu.Call{Func: func() { ran.Store(true) }},
		gpu.Completion{Func: func() { told.Store(true) }},
	)
	b.waitClosed("gate", reached)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	open()
	b.waitClosed("end of close", closed)
	if !ran.Load() || !told.Load() {
		t.Error("a call of the session did not run")
	}
	b.must(e.Synchronize()) // waits for events of a closed context end
	if s.Submit(gpu.Empty{}) == nil {
		t.Error("Submit in a closed context succeeded")
	}
	if _, err := c.NewStream(gpu.StreamOptions{}); err == nil {
		t.Error("NewStream in a closed context succeeded")
	}
	after, _ := b.context.Memory().Usage()
	b.free("closed", after, free)
	b.submit(b.newStream(), gpu.Empty{})
	b.must(b.context.Synchronize())
}
