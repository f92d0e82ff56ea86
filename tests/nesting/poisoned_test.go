package nesting

import (
	"errors"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestPoisoned gives a context the fault of one whose place it takes, while it works: who waits is let go, nothing can be begun, what
// the context knows besides can still be asked for, and closing it does not wait for the driver for ever.
func TestPoisoned(t *testing.T) {
	if !ownProcess(t, inner) {
		return
	}
	b := openBehind(t)
	s, resumable := b.stream(), b.context.(gpu.Resumable)
	event, err := b.context.NewEvent(gpu.EventOptions{Timing: true})
	b.must(err)
	b.submit(s, b.fill(0, 3), gpu.Record{Event: event})
	b.must(s.Synchronize())
	before, err := resumable.Moment(event)
	b.must(err)
	graph := &gpu.Graph{Nodes: []gpu.Node{{Work: b.fill(0, 3)}}}
	executable, err := b.context.Instantiate(graph)
	b.must(err)

	held, _ := b.held()
	waits := make(chan error, 1)
	go func() { waits <- held.Synchronize() }()
	had := &gpu.Error{Op: "launch add", Code: abi.IllegalAddress, Detail: "as it was saved"}
	resumable.Poison(had)
	resumable.Poison(&gpu.Error{Op: "launch add", Code: abi.ECCUncorrectable})
	_, write := b.context.Memory().WriteAt([]byte{1}, int64(b.memory.Address))
	_, streams := b.context.NewStream(gpu.StreamOptions{})
	_, events := b.context.NewEvent(gpu.EventOptions{})
	_, graphs := b.context.Instantiate(graph)
	for what, err := range map[string]error{
		"fault": b.context.Fault(), "wait": <-waits, "stream": streams, "submit": s.Submit(b.fill(0, 4)),
		"write": write, "query": s.Query(), "context": b.context.Synchronize(), "event": events, "graph": graphs,
		"launch": executable.Launch(s), "wait for event": event.Synchronize(),
	} {
		if !errors.Is(err, had) {
			t.Errorf("%s: it says %v, want %v", what, err, had)
		}
	}
	if after, err := resumable.Moment(event); err != nil || !before.Recorded || !after.Recorded || after.Clock < before.Clock {
		t.Errorf("the event was at %v, and is at %v: %v", before, after, err)
	}
	if c := resumable.Continuation(); c.Clock < before.Clock {
		t.Errorf("the clock is at %v, after %v", c.Clock, before.Clock)
	}
	if err := b.context.Close(); !errors.Is(err, cuda.ErrStuck) { // what the driver waits for never comes
		t.Errorf("close: it says %v", err)
	}
}

// TestLimits sets bounds of kernels: the driver's refusal is passed on, and ends nothing.
func TestLimits(t *testing.T) {
	if !ownProcess(t, inner) {
		return
	}
	b := openBehind(t)
	limiter := b.context.(gpu.Limiter)
	b.must(limiter.SetLimit(0, 8192))
	if err := limiter.SetLimit(1000, 1); !errors.Is(err, abi.UnsupportedLimit) {
		t.Errorf("an unknown limit: %v", err)
	}
	b.must(b.context.Fault())
	s := b.stream()
	b.submit(s, b.fill(0, 3))
	b.must(s.Synchronize())
}
