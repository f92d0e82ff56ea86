package nesting

import (
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/tests/lab"
)

// behind is a context of the backend, and the phosd that is its driver.
type behind struct {
	*testing.T
	inner   *rpc.Client
	backend *cuda.Backend
	context gpu.Context
	memory  gpu.Range
}

// openBehind opens the backend, in a process that the test has for itself.
func openBehind(t *testing.T, socket string) *behind {
	t.Helper()
	t.Setenv(rpc.SocketVariable, socket)
	inner, err := rpc.Dial(socket)
	b := &behind{T: t, inner: inner}
	b.must(err)
	t.Cleanup(func() { _ = inner.Close() })
	b.backend, err = cuda.Open(cuda.Options{Library: library(), Logger: slog.New(slog.DiscardHandler)})
	b.must(err)
	t.Cleanup(func() { b.must(b.backend.Close()) })
	b.context, err = b.backend.NewContext(0, gpu.ContextOptions{})
	b.must(err)
	b.memory = gpu.Range{Address: b.backend.Devices()[0].Window.Address, Bytes: 4 * gpu.ChunkBytes}
	b.must(b.context.Memory().Map(b.memory))
	return b
}

func (b *behind) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *behind) stream() gpu.Stream {
	b.Helper()
	s, err := b.context.NewStream(gpu.StreamOptions{NonBlocking: true})
	b.must(err)
	return s
}

func (b *behind) submit(s gpu.Stream, works ...gpu.Work) {
	b.Helper()
	for _, work := range works {
		b.must(s.Submit(work))
	}
}

// completed is how many calls the driver has had.
func (b *behind) completed() uint64 {
	b.Helper()
	status, err := b.inner.Daemon.Status(b.Context(), &rpc.StatusRequest{})
	b.must(err)
	return status.GetPrograms()[0].GetDescription().GetProgress().GetCallsCompleted()
}

// calls is completed once no call is on its way any more: nobody waits for some of them.
func (b *behind) calls() uint64 {
	b.Helper()
	last := b.completed()
	for {
		time.Sleep(50 * time.Millisecond)
		now := b.completed()
		if now == last {
			return now
		}
		last = now
	}
}

// within fails the test if something does not happen soon.
func (b *behind) within(what string, happened func() bool) {
	b.Helper()
	for limit := time.Now().Add(time.Minute); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			b.Fatal(what)
		}
	}
}

// held is a stream that the driver holds until opened writes the word it waits for.
func (b *behind) held() (s gpu.Stream, open func()) {
	b.Helper()
	s = b.stream()
	word := b.memory.End() - 8
	b.submit(s, gpu.MemoryOps{Ops: []gpu.MemoryOp{{Wait: true, Until: gpu.UntilEqual, Bytes: 4, Address: word, Value: 1}}})
	return s, func() {
		_, err := b.context.Memory().WriteAt([]byte{1, 0, 0, 0}, int64(word))
		b.must(err)
	}
}

func (b *behind) fill(at uint64, value byte) gpu.Work {
	return gpu.Fill{Address: b.memory.Address + at, Pattern: uint32(value), PatternBytes: 1, Columns: 1, Rows: 1}
}

// TestTellHoldsNothing: what the session wants to be told does not keep later work from the driver.
func TestTellHoldsNothing(t *testing.T) {
	socket := os.Getenv(innerSocket)
	if socket == "" {
		alone(t, lab.Start(t).Socket, "^TestTellHoldsNothing$")
		return
	}
	b := openBehind(t, socket)
	s, open := b.held()
	event, err := b.context.NewEvent(gpu.EventOptions{})
	b.must(err)
	before := b.calls()
	const rounds = 50
	var told atomic.Int32
	for i := range rounds {
		b.submit(s, b.fill(uint64(i), 1), gpu.Record{Event: event}, gpu.Tell{Func: func() { told.Add(1) }}, b.fill(uint64(i), 2))
	}
	b.within("later work does not come to the driver", func() bool { return b.completed() >= before+3*rounds })
	if got := told.Load(); got != 0 || s.Idle() {
		t.Errorf("%d functions ran before what they come after; idle: %v", got, s.Idle())
	}
	open()
	b.within("nobody was told", func() bool { return told.Load() == rounds }) // without asking the stream
	b.must(s.Synchronize())
	if !s.Idle() {
		t.Error("not idle when all is done")
	}
}
