package gputest

import (
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// testCompletion checks that each function runs once, in order, after all earlier work, and before
// a later Call.
func testCompletion(t *testing.T, b *bench) {
	const n = 500
	s, e := b.newStream(), b.newEvent(false)
	address := b.alloc(n)
	var told []int
	for i := range n {
		b.submit(s, gpu.Fill{Address: address + uint64(i), Pattern: uint32(i%250 + 1), PatternBytes: 1, Columns: 1, Rows: 1})
		if i%3 == 0 {
			b.submit(s, gpu.Record{Event: e})
		}
		b.submit(s, gpu.Completion{Func: func() {
			if got := b.read(address+uint64(i), 1)[0]; got != byte(i%250+1) {
				t.Errorf("function %d: memory is %d", i, got)
			}
			told = append(told, i)
		}})
		if i%50 == 49 {
			b.submit(s, gpu.Call{Func: func() {
				if len(told) != i+1 {
					t.Errorf("%d of %d functions ran before a call", len(told), i+1)
				}
			}})
		}
	}
	b.must(s.Synchronize())
	if len(told) != n {
		t.Fatalf("%d of %d functions ran", len(told), n)
	}
	for i, j := range told {
		if i != j {
			t.Fatalf("function %d ran in position %d", j, i)
		}
	}
}

// testCompletionPending checks that a stream with pending functions is not idle, and that none runs
// too early.
func testCompletionPending(t *testing.T, b *bench) {
	s := b.newStream()
	held, reached, open := gate()
	in, out := make(chan struct{}), make(chan struct{})
	var early atomic.Bool
	early.Store(true)
	b.submit(s, held, gpu.Completion{Func: func() {
		if early.Load() {
			t.Error("a function ran before earlier work")
		}
		close(in)
		<-out
	}})
	b.waitClosed("gate", reached)
	b.want("query before a function", s.Query(), abi.NotReady)
	early.Store(false)
	open()
	b.waitClosed("function", in)
	b.want("query while a function runs", s.Query(), abi.NotReady)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Synchronize()
	}()
	select {
	case <-ended:
		t.Error("Synchronize returned while a function runs")
	default:
	}
	close(out)
	b.waitClosed("end of Synchronize", ended)
	if !s.Idle() {
		t.Error("not idle after all work is done")
	}
	b.want("no function", s.Submit(gpu.Completion{}), abi.InvalidValue)
}
