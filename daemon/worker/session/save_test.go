package session

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (p *program) quiet() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	if err := p.session.Quiet(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// lazily backs what a restored session has by chunks that are filled when they are touched. What is
// mapped once that is complete has nothing of the old.
type lazily struct {
	gpu.Memory
	chunks   map[uint64][]byte // by address
	complete *bool
}

func (l lazily) Map(r gpu.Range) error {
	if *l.complete {
		return l.Memory.Map(r)
	}
	return l.Memory.(gpu.LazyMapper).MapAbsent(r, func(address uint64, chunk []byte) error {
		copy(chunk, l.chunks[address])
		return nil
	})
}

// chunksOf copies all that memories hold.
func chunksOf(t testing.TB, memories []Memory) map[uint64][]byte {
	t.Helper()
	chunks := map[uint64][]byte{}
	for _, m := range memories {
		for _, r := range m.Mapped {
			for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
				chunks[at] = make([]byte, gpu.ChunkBytes)
				if _, err := m.ReadAt(chunks[at], int64(at)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return chunks
}

// twin saves the program's session and restores it on another backend, for a program in the same
// state. Device memory is loaded at once, or lazily when it is touched.
func (p *program) twin(spec string, lazy bool) *program {
	p.t.Helper()
	p.quiet()
	data, err := p.session.Save()
	if err != nil {
		p.t.Fatal(err)
	}
	backend, err := soft.Open(spec, soft.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	q := &program{
		t: p.t, memory: slices.Clone(p.memory), arena: slices.Clone(p.arena), replies: map[uint64]chan answer{},
		words: maps.Clone(p.words), sequence: p.sequence, context: p.context,
	}
	p.mu.Unlock()
	memories := p.session.Memories()
	chunks := chunksOf(p.t, memories)
	options := Options{Backend: backend, Program: q, Arena: q, Answers: q, Share: q.share}
	complete := false
	if lazy {
		options.Backing = func(_ int, memory gpu.Memory) heap.Backing { return lazily{memory, chunks, &complete} }
	}
	if q.session, err = Restore(options, data); err != nil {
		p.t.Fatal(err)
	}
	if err := q.session.memory.ShowRegistered(); err != nil {
		p.t.Fatal(err)
	}
	complete = true
	p.t.Cleanup(func() {
		if err := q.session.Close(); err != nil {
			p.t.Error(err)
		}
		if err := backend.Close(); err != nil {
			p.t.Error(err)
		}
	})
	again := q.session.Memories()
	if len(again) != len(memories) {
		p.t.Fatalf("%d GPUs are open, want %d", len(again), len(memories))
	}
	for i, m := range memories {
		if !slices.Equal(m.Mapped, again[i].Mapped) {
			p.t.Fatalf("GPU %d: %v is mapped, want %v", m.Ordinal, again[i].Mapped, m.Mapped)
		}
		for _, r := range m.Mapped {
			for at := r.Address; at < r.End() && !lazy; at += gpu.ChunkBytes {
				if _, err := again[i].WriteAt(chunks[at], int64(at)); err != nil {
					p.t.Fatal(err)
				}
			}
		}
	}
	data2, err := q.session.Save()
	if err != nil {
		p.t.Fatal(err)
	}
	if !bytes.Equal(timeless(p.t, data), timeless(p.t, data2)) {
		p.t.Fatalf("saved again, it is %d bytes; %d at first", len(data2), len(data))
	}
	return q
}

// timeless is a saved session without what its clocks say.
func timeless(t testing.TB, data []byte) []byte {
	t.Helper()
	s, err := saved.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Devices {
		s.Devices[i].Continuation.Clock = 0
	}
	again, err := saved.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestRestoreGoesOn takes a program with a bit of everything to another GPU in the middle of its
// work.
func TestRestoreGoesOn(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		const spec, count = "soft:1", 1000
		p := softProgram(t, spec, 1<<20)
		module := p.load(doubleText)
		var f wire.ModuleGetFunctionReply
		p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: module, Name: "double"}, &f)
		device := p.alloc(4 * count)
		for i := range count {
			p.memory[4*i] = byte(i)
		}
		if err := p.copyIn(device, 0, 4*count); err != nil {
			t.Fatal(err)
		}
		st := p.stream(0)
		event, _ := p.event()
		p.begin(st)
		p.ok(abi.CallLaunch, doubleOf(f.Hfunc, st, device, count), nil)
		exec := p.instantiate(p.end(st))
		p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: st}, nil)
		p.ok(abi.CallEventRecord, &wire.EventRecord{Event: event, Stream: st, Count: 1}, nil)
		q := p.twin(spec, lazy)
		for _, x := range []*program{q, p} {
			x.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: st}, nil)
			x.ok(abi.CallLaunch, doubleOf(f.Hfunc, st, device, count), nil)
			if err := x.copyOut(0, device, 4*count); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				if got := x.memory[4*i]; got != byte(8*i) {
					t.Fatalf("element %d is %d, want %d", i, got, 8*i)
				}
			}
			var calls wire.ModuleGetGlobalReply
			x.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: module, Name: "calls"}, &calls)
			if err := x.copyOut(0, calls.Dptr, 4); err != nil {
				t.Fatal(err)
			}
			if got := x.memory[0]; got != byte(3*count&0xff) {
				t.Errorf("the counter is %d", got)
			}
		}
	}
}

// TestRestorePoisoned: a fault is saved with its words, and what can still be done after one can be
// done after a restore.
func TestRestorePoisoned(t *testing.T) {
	const spec = "soft:1"
	p := softProgram(t, spec, 1<<20)
	module := p.load(doubleText)
	var f wire.ModuleGetFunctionReply
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: module, Name: "double"}, &f)
	st, device := p.stream(0), p.alloc(1000)
	event, _ := p.event()
	p.do(abi.CallLaunch, doubleOf(f.Hfunc, st, 0x1000, 10), nil)
	p.do(abi.CallEventRecord, &wire.EventRecord{Event: event, Stream: st, Count: 1}, nil)
	p.want(abi.IllegalAddress, abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
	q := p.twin(spec, false)
	if a, b := p.session.Progress().Fault, q.session.Progress().Fault; a == "" || a != b {
		t.Errorf("the fault was %q, and is %q", a, b)
	}
	for _, x := range []*program{p, q} {
		x.want(abi.IllegalAddress, abi.CallStreamQuery, &wire.StreamQuery{HStream: st}, nil)
		x.want(abi.IllegalAddress, abi.CallEventSynchronize, &wire.EventSynchronize{Event: event}, nil)
		x.want(abi.IllegalAddress, abi.CallStreamCreateWithPriority, &wire.StreamCreateWithPriority{}, nil)
		x.want(abi.IllegalAddress, abi.CallLaunch, doubleOf(f.Hfunc, st, device, 10), nil)
		x.ok(abi.CallMemFree, &wire.MemFree{Dptr: device}, nil)
		x.ok(abi.CallDevicePrimaryCtxReset, &wire.DevicePrimaryCtxReset{}, nil)
		x.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, nil)
		if err := x.copyIn(x.alloc(1000), 0, 1000); err != nil {
			t.Error(err)
		}
	}
}

// TestRestoreTimes: between restored events lies the time that lay between them, and no time passes
// in between.
func TestRestoreTimes(t *testing.T) {
	const spec = "soft:1"
	p := softProgram(t, spec, 1<<20)
	elapsed := func(p *program, a, b abi.Handle) float32 {
		var out wire.EventElapsedTimeReply
		p.ok(abi.CallEventElapsedTime, &wire.EventElapsedTime{HStart: a, HEnd: b}, &out)
		return out.PMilliseconds
	}
	var events []abi.Handle
	for range 5 {
		e, _ := p.event()
		p.ok(abi.CallEventRecord, &wire.EventRecord{Event: e, Count: 1}, nil)
		syncContext(p)
		events = append(events, e)
	}
	q := p.twin(spec, false)
	r := q.twin(spec, false)
	for _, a := range events {
		for _, b := range events {
			if x, y, z := elapsed(p, a, b), elapsed(q, a, b), elapsed(r, a, b); x != y || x != z {
				t.Errorf("%v to %v took %v, restored %v, again %v", a, b, x, y, z)
			}
		}
	}
	e, _ := r.event()
	r.ok(abi.CallEventRecord, &wire.EventRecord{Event: e, Count: 1}, nil)
	syncContext(r)
	if late := elapsed(r, events[4], e); late < 0 {
		t.Errorf("an event after the restore came %v ms after one before it", late)
	}
}

// disturbances keep a session busy.
var disturbances = []struct {
	name, says string
	// begin makes the session busy, the function that it returns lets that end.
	begin func(p *program) (end func())
}{
	{"a kernel", "stream 1 is not done; the last kernels were gate", func(p *program) func() {
		st := p.stream(0)
		f, open := p.gate()
		p.ok(abi.CallLaunch, launchOf(f, st, 0), nil)
		return open
	}},
	{"a kernel in the default stream", "the default stream of context 1 is not done", func(p *program) func() {
		f, open := p.gate()
		p.ok(abi.CallLaunch, launchOf(f, 0, 0), nil)
		return open
	}},
	{"a call that waits", "cuCtxSynchronize_v2 has waited", func(p *program) func() {
		f, open := p.gate()
		p.ok(abi.CallLaunch, launchOf(f, 0, 0), nil)
		p.post(1, graph.ModeGlobal, abi.CallCtxSynchronize, &wire.CtxSynchronize{})
		return open
	}},
	{"a stream being destroyed", "is not done", func(p *program) func() {
		st := p.stream(0)
		f, open := p.gate()
		p.ok(abi.CallLaunch, launchOf(f, st, 0), nil)
		p.ok(abi.CallStreamDestroy, &wire.StreamDestroy{HStream: st}, nil)
		return open
	}},
	{"memory being freed", "is not done", func(p *program) func() {
		address := p.alloc(100)
		f, open := p.gate()
		p.ok(abi.CallLaunch, launchOf(f, 0, 0), nil)
		p.ok(abi.CallMemFree, &wire.MemFree{Dptr: address}, nil)
		return open
	}},
	{"a host function", "1 host functions have not returned", func(p *program) func() {
		asked := make(chan uint64, 1)
		p.callback = func(callback wire.Callback) { asked <- callback.ID }
		p.ok(abi.CallHostFunc, &wire.HostFunc{Kind: wire.CallbackHost, Function: 1}, nil)
		id := <-asked
		return func() { p.ok(abi.CallCallbackDone, &wire.CallbackDone{Id: id}, nil) }
	}},
	{"a handler that is held up", "a call is being handled", func(p *program) func() {
		p.session.core.Mu.Lock()
		return p.session.core.Mu.Unlock
	}},
}

// TestQuiet: it waits for all that is going on, names it when its time is over, and leaves it
// alone.
func TestQuiet(t *testing.T) {
	soon := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 30*time.Millisecond)
	}
	for _, c := range disturbances {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t)
			p.quiet()
			end := c.begin(p)
			ctx, cancel := soon()
			defer cancel()
			err := p.session.Quiet(ctx)
			if !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("while it goes on: %v; want %q", err, c.says)
			}
			if c.says != "a call is being handled" {
				if _, err := p.session.Save(); !errors.Is(err, ErrBusy) {
					t.Errorf("saved while it goes on: %v", err)
				}
			}
			end()
			p.quiet()
		})
	}
}

// TestSaveNeedsABackendThatCan: the session says whose fault it is.
func TestSaveNeedsABackendThatCan(t *testing.T) {
	p := newProgram(t)
	if _, err := p.session.Save(); !errors.Is(err, abi.NotSupported) || !strings.Contains(err.Error(), "fake 0") {
		t.Error(err)
	}
}
