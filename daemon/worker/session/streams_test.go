package session

import (
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func syncContext(p *program) {
	p.t.Helper()
	p.ok(abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
}

// TestLegacyStreamOrder holds one stream at a gate and sees whether work of another waits for it.
func TestLegacyStreamOrder(t *testing.T) {
	blocking := func(p *program) abi.Handle { return p.stream(0) }
	nonBlocking := func(p *program) abi.Handle { return p.stream(core.NonBlocking) }
	legacy := func(*program) abi.Handle { return abi.StreamDefault }
	explicit := func(*program) abi.Handle { return abi.StreamLegacy }
	perThread := func(*program) abi.Handle { return abi.StreamPerThread }
	for _, c := range []struct {
		name          string
		first, second func(p *program) abi.Handle
		ordered       bool
	}{
		{"blocking, legacy", blocking, legacy, true},
		{"legacy, blocking", legacy, blocking, true},
		{"explicit legacy, blocking", explicit, blocking, true},
		{"per-thread, legacy", perThread, legacy, true},
		{"legacy, per-thread", legacy, perThread, true},
		{"blocking, blocking", blocking, blocking, false},
		{"non-blocking, legacy", nonBlocking, legacy, false},
		{"legacy, non-blocking", legacy, nonBlocking, false},
		{"legacy, explicit legacy", legacy, explicit, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t)
			var order log
			gate, open := p.gate()
			defer open()
			note := order.kernel(p)
			first, second := c.first(p), c.second(p)
			p.ok(abi.CallLaunch, launchOf(gate, first, 0), nil)
			p.ok(abi.CallLaunch, launchOf(note, first, 1), nil)
			p.ok(abi.CallLaunch, launchOf(note, second, 2), nil)
			if !c.ordered { // then the second must get through while the first is held
				p.eventually("the second runs", func() bool { return len(order.got()) > 0 })
			}
			open()
			syncContext(p)
			want := []uint64{1, 2}
			if !c.ordered {
				want = []uint64{2, 1}
			}
			if got := order.got(); !slices.Equal(got, want) {
				t.Errorf("order %v, want %v", got, want)
			}
		})
	}
}

func TestPerThreadStreamsAreApart(t *testing.T) {
	p := newProgram(t)
	var order log
	gate, open := p.gate()
	defer open()
	note := order.kernel(p)
	p.post(1, graph.ModeGlobal, abi.CallLaunch, launchOf(gate, abi.StreamPerThread, 0))
	p.post(2, graph.ModeGlobal, abi.CallLaunch, launchOf(note, abi.StreamPerThread, 7))
	if err := p.doAs(2, graph.ModeGlobal, abi.CallStreamSynchronize,
		&wire.StreamSynchronize{HStream: abi.StreamPerThread}, nil); err != nil {
		t.Fatal(err)
	}
	if got := order.got(); len(got) != 1 {
		t.Errorf("thread 2 waits for thread 1: %v", got)
	}
	p.want(abi.NotReady, abi.CallStreamQuery, &wire.StreamQuery{HStream: abi.StreamPerThread}, nil)
	p.want(abi.NotReady, abi.CallStreamQuery, &wire.StreamQuery{HStream: abi.StreamDefault}, nil)
}

func TestEventsOrderStreams(t *testing.T) {
	p := newProgram(t)
	var order log
	gate, open := p.gate()
	defer open()
	note := order.kernel(p)
	a, b := p.stream(core.NonBlocking), p.stream(core.NonBlocking)
	event, word := p.event()
	p.want(nil, abi.CallEventQuery, &wire.EventQuery{Event: event}, nil) // never recorded counts as done
	p.ok(abi.CallLaunch, launchOf(gate, a, 0), nil)
	p.ok(abi.CallLaunch, launchOf(note, a, 1), nil)
	p.ok(abi.CallEventRecord, &wire.EventRecord{Event: event, Stream: a, Count: 1}, nil)
	p.want(abi.NotReady, abi.CallEventQuery, &wire.EventQuery{Event: event}, nil)
	if p.word(word) != 0 {
		t.Error("the word is set before the event is reached")
	}
	p.ok(abi.CallStreamWaitEvent, &wire.StreamWaitEvent{HStream: b, HEvent: event}, nil)
	p.ok(abi.CallLaunch, launchOf(note, b, 2), nil)
	waiting := p.post(1, graph.ModeGlobal, abi.CallEventSynchronize, &wire.EventSynchronize{Event: event})
	open()
	if err := p.await(waiting, nil); err != nil {
		t.Fatal(err)
	}
	syncContext(p)
	if got := order.got(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("order %v", got)
	}
	if p.word(word) != 1 {
		t.Errorf("word %d, want 1", p.word(word))
	}
}

func TestEventWordsAreRecycled(t *testing.T) {
	p := newProgram(t)
	event, first := p.event()
	gate, open := p.gate()
	defer open()
	p.ok(abi.CallLaunch, launchOf(gate, 0, 0), nil)
	p.ok(abi.CallEventRecord, &wire.EventRecord{Event: event, Count: 1}, nil)
	p.ok(abi.CallEventDestroy, &wire.EventDestroy{HEvent: event}, nil)
	other, second := p.event()
	if second == first {
		t.Error("a word was given away while a record was on its way to it")
	}
	open()
	syncContext(p)
	p.ok(abi.CallEventDestroy, &wire.EventDestroy{HEvent: other}, nil)
	_, third := p.event()
	if third != second && third != first {
		t.Errorf("word %d, want %d or %d again", third, first, second)
	}
	if p.word(third) != 0 {
		t.Error("a new event's word is not 0")
	}
}

func TestEventErrors(t *testing.T) {
	p := newProgram(t)
	timed, _ := p.event()
	var untimed wire.EventCreateReply
	p.ok(abi.CallEventCreate, &wire.EventCreate{Flags: eventDisableTiming}, &untimed)
	for _, e := range []abi.Handle{timed, untimed.Event} {
		p.ok(abi.CallEventRecord, &wire.EventRecord{Event: e}, nil)
	}
	syncContext(p)
	var elapsed wire.EventElapsedTimeReply
	p.ok(abi.CallEventElapsedTime, &wire.EventElapsedTime{HStart: timed, HEnd: timed}, &elapsed)
	p.want(abi.InvalidHandle, abi.CallEventElapsedTime, &wire.EventElapsedTime{HStart: timed, HEnd: untimed.Event}, nil)
	p.want(abi.InvalidValue, abi.CallEventCreate, &wire.EventCreate{Flags: 64}, nil)
	p.want(
		abi.InvalidValue,
		abi.CallEventCreate,
		&wire.EventCreate{Flags: eventInterprocess},
		nil,
	) // they have no times
	p.want(abi.InvalidHandle, abi.CallEventRecord, &wire.EventRecord{Event: 1234}, nil)
}

// TestDestroyedStreamGoesOn: the work of a stream that is destroyed is done, and later default
// stream work waits for it.
func TestDestroyedStreamGoesOn(t *testing.T) {
	p := newProgram(t)
	var order log
	gate, open := p.gate()
	defer open()
	note := order.kernel(p)
	st := p.stream(0)
	p.ok(abi.CallLaunch, launchOf(gate, st, 0), nil)
	p.ok(abi.CallLaunch, launchOf(note, st, 1), nil)
	p.ok(abi.CallStreamDestroy, &wire.StreamDestroy{HStream: st}, nil)
	p.want(abi.InvalidHandle, abi.CallLaunch, launchOf(note, st, 3), nil)
	p.ok(abi.CallLaunch, launchOf(note, 0, 2), nil)
	open()
	syncContext(p)
	if got := order.got(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("order %v", got)
	}
}

func TestHostFunctions(t *testing.T) {
	p := newProgram(t)
	var order log
	note := order.kernel(p)
	asked := make(chan wire.Callback, 4)
	p.callback = func(c wire.Callback) { asked <- c }
	p.ok(abi.CallHostFunc, &wire.HostFunc{Function: 0x1111, UserData: 0x2222}, nil)
	p.ok(abi.CallLaunch, launchOf(note, 0, 1), nil)
	got := <-asked
	if got.Function != 0x1111 || got.UserData != 0x2222 || got.Kind != wire.CallbackHost || got.ID == 0 {
		t.Errorf("callback %+v", got)
	}
	if n := len(order.got()); n != 0 {
		t.Error("the stream did not wait for the host function")
	}
	p.ok(abi.CallCallbackDone, &wire.CallbackDone{Id: got.ID}, nil)
	syncContext(p)
	if n := len(order.got()); n != 1 {
		t.Error("the stream did not go on")
	}
	// Closing the session lets go of a stream whose callback never comes back.
	p.ok(abi.CallHostFunc, &wire.HostFunc{Kind: wire.CallbackStream, Function: 3, Stream: 0}, nil)
	if got = <-asked; got.Kind != wire.CallbackStream {
		t.Errorf("callback %+v", got)
	}
}

func TestProgress(t *testing.T) {
	p := newProgram(t)
	var order log
	note := order.kernel(p)
	gate, open := p.gate()
	defer open()
	before := p.session.Progress()
	if before.Oldest != nil || before.Made != before.Completed || before.GPUs[0].Contexts != 1 {
		t.Errorf("idle: %+v", before)
	}
	p.alloc(1000)
	p.ok(abi.CallLaunch, launchOf(note, 0, 1), nil)
	p.ok(abi.CallLaunch, launchOf(gate, 0, 1), nil)
	waiting := p.post(1, graph.ModeGlobal, abi.CallCtxSynchronize, &wire.CtxSynchronize{})
	got := p.session.Progress()
	if got.Oldest == nil || got.Oldest.Call != abi.CallCtxSynchronize.String() || got.Made != got.Completed+1 {
		t.Errorf("waiting: %+v", got)
	}
	if !slices.Equal(got.Kernels, []string{"gate", "note"}) || got.GPUs[0].AllocatedBytes != 1000 {
		t.Errorf("%+v", got)
	}
	open()
	if err := p.await(waiting, nil); err != nil {
		t.Fatal(err)
	}
}

// TestProgressOfAStuckProgram: a program that does not serve a copy holds up itself, not a
// request for its progress.
func TestProgressOfAStuckProgram(t *testing.T) {
	p := newProgram(t)
	device := p.alloc(100)
	p.stuck = make(chan struct{})
	done := make(chan error)
	go func() { done <- p.copyIn(device, 0, 100) }()
	p.eventually("the session is busy", func() bool { return p.session.Progress().Busy })
	close(p.stuck)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		env        map[string]string
		rank, size int
	}{
		{nil, 0, 0},
		{map[string]string{"RANK": "3", "WORLD_SIZE": "8"}, 3, 8},
		{map[string]string{"RANK": "8", "WORLD_SIZE": "8"}, 0, 0},
		{map[string]string{"RANK": "x", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, 1, 2},
		{map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}, 0, 4},
	} {
		if r, n := rank(func(name string) string { return c.env[name] }); r != c.rank || n != c.size {
			t.Errorf("%v: rank %d of %d", c.env, r, n)
		}
	}
}

func BenchmarkLaunch(b *testing.B) {
	p := newProgram(b)
	f := p.kernel("nothing", nil)
	payload := launchOf(f, 0, 1).Append(nil)
	st, err := p.session.core.Stream(&Call{Context: uint32(p.context), Slot: 1}, 0)
	if err != nil {
		b.Fatal(err)
	}
	st.Work = nullStream{}
	call := &Call{Number: abi.CallLaunch, Slot: 1, Context: uint32(p.context), Payload: payload}
	b.ReportAllocs()
	for b.Loop() {
		p.session.Dispatch(call)
	}
}
