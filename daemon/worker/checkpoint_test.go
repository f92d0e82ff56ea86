package worker

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Threads compute the right results while they are checkpointed repeatedly, and killed and restored
// from the image.
func TestCheckpointAndRestore(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	work := startWorkload(t, s.program, 3)
	random := rand.New(rand.NewPCG(5, 5))
	for round := range 8 {
		await(t, work, 10)
		d := s.dump()
		d.begin()
		d.cut()
		if round%2 == 0 { // the program keeps running
			s.program.Thaw()
			d.must(resume())
			await(t, work, uint64(random.IntN(10)))
			if result := d.must(finish()).GetResult(); result.GetMemoryBytes() == 0 || result.GetObjects()["memory"] != 3 {
				t.Errorf("result: %v", result)
			}
			d.end()
			continue
		}
		tree := d.must(finish()).GetResult().GetTree()
		d.end()
		s.restore(tree, round%4 == 1)
	}
	await(t, work, 10)
	work.end()
	if s.program.Session() != 5 {
		t.Errorf("session %d, want 5", s.program.Session())
	}
}

// await waits until the threads have done the given number of further steps.
func await(t *testing.T, w *workload, steps uint64) {
	t.Helper()
	for want, began := w.steps.Load()+steps, time.Now(); w.steps.Load() < want; time.Sleep(time.Millisecond) {
		if t.Failed() || time.Since(began) > time.Minute {
			t.Fatal("the program makes no progress")
		}
	}
}

// A checkpoint of a program that is still starting is busy, any number of times. It succeeds once
// the program has started.
func TestStarting(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	pack, err := s.images.NewPack()
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	awaitActive(t, s.worker)
	started := s.worker.active.Swap(nil)
	for range 3 * maxTokens {
		d := s.dump()
		if done, err := d.do(begin(s.handOff(pack))); err != nil || done.GetBusy() == "" {
			t.Errorf("begin while starting: got %v, %v, want busy", done, err)
		}
		_ = d.stream.CloseSend()
		for ended := error(nil); ended == nil; {
			_, ended = d.stream.Recv()
		}
	}
	s.worker.active.Store(started)
	d := s.dump()
	d.begin()
	d.end()
}

// awaitActive waits until the worker has an active session.
func awaitActive(t *testing.T, w *Worker) {
	t.Helper()
	for began := time.Now(); w.active.Load() == nil; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the session did not become active")
		}
	}
}

// After a checkpoint is cancelled at any phase the gate is open, the program runs, and another
// checkpoint succeeds.
func TestUndo(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	work := startWorkload(t, s.program, 2)
	quiet := func(d *dump) {
		for d.doOrBusy(quiesce(20*time.Second)).GetBusy() != "" {
		}
	}
	for name, until := range map[string]func(d *dump){
		"at once":       func(*dump) {},
		"after begin":   func(d *dump) { d.begin() },
		"after quiesce": func(d *dump) { d.begin(); quiet(d) },
		"after cut":     func(d *dump) { d.begin(); d.cut() },
		"after resume": func(d *dump) {
			d.begin()
			d.cut()
			s.program.Thaw()
			d.must(resume())
		},
		"after finish": func(d *dump) { d.begin(); d.cut(); d.must(finish()) },
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			d := s.dump()
			until(d)
			frozen := name == "after cut" || name == "after finish"
			d.cancel() // phosd exits
			file := s.files[0]
			for began := time.Now(); file.Word32(wire.WordGate).Load()&wire.GateClosed != 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > time.Minute {
					t.Fatal("the gate is still closed")
				}
			}
			if frozen {
				s.program.Thaw() // as the watchdog does
			}
			await(t, work, 3)
			s.awaitCheckpointEnd()
		})
	}
	s.t = t
	d := s.dump()
	d.begin()
	d.cut()
	tree := d.must(finish()).GetResult().GetTree()
	d.end()
	s.restore(tree, true)
	await(t, work, 3)
	work.end()
}

// Commands in the wrong order end the checkpoint but not the program.
func TestOrder(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	thread := caller{t, s.program.NewThread()}
	for name, commands := range map[string][]*api.SaveCommand{
		"empty command":          {{}},
		"finish first":           {finish()},
		"cut first":              {cutNow(time.Minute)},
		"quiesce first":          {quiesce(time.Minute)},
		"resume first":           {resume()},
		"begin without pack":     {begin(nil)},
		"begin with wrong token": {begin(make([]byte, fdtoken.TokenBytes))},
		"cut before quiesce":     {nil, cutNow(time.Minute)},
		"finish before cut":      {nil, quiesce(time.Minute), finish()},
		"begin twice":            {nil, begin(make([]byte, fdtoken.TokenBytes))},
		"quiesce twice":          {nil, quiesce(time.Minute), quiesce(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			d := s.dump()
			for _, command := range commands[:len(commands)-1] {
				if command == nil {
					d.begin()
					continue
				}
				d.must(command)
			}
			if done, err := d.do(commands[len(commands)-1]); !errors.Is(err, api.ErrInvalid) {
				t.Errorf("got %v, %v, want ErrInvalid", done, err)
			}
			d.cancel()
			thread.ok(abi.CallPing, nil, nil)
			s.awaitCheckpointEnd()
		})
	}
	s.t = t
	d := s.dump()
	d.begin()
	if _, err := s.dump().do(finish()); !errors.Is(err, api.ErrExhausted) {
		t.Errorf("concurrent checkpoint: got %v, want ErrExhausted", err)
	}
	d.end()
}

// During a stream capture the gate stays open, or the capture would never end.
func TestQuiesceDuringCapture(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	c := caller{t, s.program.NewThread()}
	c.Context = 1
	c.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	var stream wire.StreamCreateWithPriorityReply
	c.ok(abi.CallStreamCreateWithPriority, &wire.StreamCreateWithPriority{Flags: 1}, &stream)
	c.ok(abi.CallStreamBeginCapture, &wire.StreamBeginCapture{HStream: stream.PhStream}, nil)
	d := s.dump()
	d.begin()
	if done := d.doOrBusy(quiesce(30 * time.Millisecond)); !strings.Contains(done.GetBusy(), "captured") {
		t.Errorf("busy %q", done.GetBusy())
	}
	answer := make(chan *api.SaveDone)
	go func() { answer <- d.doOrBusy(quiesce(time.Minute)) }()
	for range 100 {
		c.ok(abi.CallPing, nil, nil)
		time.Sleep(time.Millisecond)
		select {
		case <-answer:
			t.Fatal("quiesce succeeded while a stream was being captured")
		default:
		}
	}
	c.ok(abi.CallStreamEndCapture, &wire.StreamEndCapture{HStream: stream.PhStream}, &wire.StreamEndCaptureReply{})
	if done := <-answer; done.GetBusy() != "" {
		t.Errorf("busy %q", done.GetBusy())
	}
	s.program.Freeze()
	d.must(cutNow(time.Minute))
	s.program.Thaw()
	d.must(resume())
	d.must(finish())
	d.end()
	c.ok(abi.CallPing, nil, nil)
}

// A host function that does not return makes quiesce busy; it does not deadlock.
func TestQuiesceGivesUp(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	c := caller{t, s.program.NewThread()}
	c.Context = 1
	c.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	c.Post(abi.CallHostFunc, &wire.HostFunc{Function: 1}) // not run until below
	c.ok(abi.CallPing, nil, nil)                          // the worker has taken it
	d := s.dump()
	d.begin()
	done := d.doOrBusy(quiesce(50 * time.Millisecond))
	if !strings.Contains(done.GetBusy(), "host functions") {
		t.Errorf("busy %q", done.GetBusy())
	}
	c.ok(abi.CallPing, nil, nil) // the gate is open
	callback, found := s.program.TakeCallback()
	if !found {
		t.Fatal("no host function was posted")
	}
	c.PostInternal(abi.CallCallbackDone, &wire.CallbackDone{Id: callback.ID})
	d.must(quiesce(time.Minute))
	d.end()
	c.ok(abi.CallPing, nil, nil)
}

// A thread that replaces memory holds up the checkpoint, by name, and only as long as it takes.
func TestQuiesceWaitsForHolds(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	c := caller{t, s.program.NewThread()}
	d := s.dump()
	d.begin()
	release := s.program.Hold()
	if done := d.doOrBusy(quiesce(50 * time.Millisecond)); !strings.Contains(done.GetBusy(), "being registered") {
		t.Errorf("busy %q", done.GetBusy())
	}
	c.ok(abi.CallPing, nil, nil) // the gate is open
	answer := make(chan *api.SaveDone, 1)
	go func() { answer <- d.doOrBusy(quiesce(time.Minute)) }()
	s.program.AwaitClosedGate()
	release()
	if done := <-answer; done.GetBusy() != "" {
		t.Errorf("busy %q after the end", done.GetBusy())
	}
	d.end()
	c.ok(abi.CallPing, nil, nil)
}

// A thread that had passed the gate posts a call that needs the program. The cut reports busy at
// once.
func TestCutNeedsTheProgram(t *testing.T) {
	s := newTestWorker(t, "soft:1")
	c := caller{t, s.program.NewThread()}
	c.Context = 1
	c.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	d := s.dump()
	d.begin()
	d.must(quiesce(time.Minute))
	c.PostInternal(abi.CallHostFunc, &wire.HostFunc{Function: 1})
	s.program.Freeze()
	if done := d.doOrBusy(cutNow(time.Hour)); !strings.Contains(done.GetBusy(), "has not returned") {
		t.Errorf("busy %q", done.GetBusy())
	}
	s.program.Thaw()
	c.ok(abi.CallPing, nil, nil) // the gate is open
	callback, _ := s.program.TakeCallback()
	c.PostInternal(abi.CallCallbackDone, &wire.CallbackDone{Id: callback.ID})
	d.must(quiesce(time.Minute))
	s.program.Freeze()
	d.must(cutNow(time.Minute))
	s.program.Thaw()
	d.must(resume())
	// Another program of the same checkpoint was busy, so phosd repeats quiesce and cut.
	c.ok(abi.CallPing, nil, nil)
	d.must(quiesce(time.Minute))
	s.program.Freeze()
	d.must(cutNow(time.Minute))
	tree := d.must(finish()).GetResult().GetTree()
	d.end()
	s.restore(tree, false)
	c.ok(abi.CallPing, nil, nil)
}
