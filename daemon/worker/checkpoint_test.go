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

// Threads that compute on go on rightly, however often they are checkpointed, and stopped and made
// again from the image.
func TestCheckpointAndRestore(t *testing.T) {
	s := newStand(t, "soft:1")
	work := startWork(t, s.program, 3)
	random := rand.New(rand.NewPCG(5, 5))
	for round := range 8 {
		await(t, work, 10)
		d := s.dump()
		d.begin()
		d.cut()
		if round%2 == 0 { // it keeps running
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

// await waits until the threads have done so many more steps.
func await(t *testing.T, w *work, steps uint64) {
	t.Helper()
	for want, began := w.steps.Load()+steps, time.Now(); w.steps.Load() < want; time.Sleep(time.Millisecond) {
		if t.Failed() || time.Since(began) > time.Minute {
			t.Fatal("the program does not go on")
		}
	}
}

// However often a program is asked for that is just starting, it is only busy, and saved once it
// has started.
func TestStarting(t *testing.T) {
	s := newStand(t, "soft:1")
	pack, err := s.images.NewPack()
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	awaitJoined(t, s.worker)
	started := s.worker.joined.Swap(nil)
	for range 3 * handedTokens {
		d := s.dump()
		if done, err := d.do(begin(s.hand(pack))); err != nil || done.GetBusy() == "" {
			t.Errorf("it is not busy: %v, %v", done, err)
		}
		_ = d.stream.CloseSend()
		for ended := error(nil); ended == nil; {
			_, ended = d.stream.Recv()
		}
	}
	s.worker.joined.Store(started)
	d := s.dump()
	d.begin()
	d.end()
}

// awaitJoined waits until a program has joined the worker.
func awaitJoined(t *testing.T, w *Worker) {
	t.Helper()
	for began := time.Now(); w.joined.Load() == nil; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the program never joins")
		}
	}
}

// However a checkpoint ends, the gate is open afterwards and the program goes on; another one may
// follow.
func TestUndo(t *testing.T) {
	s := newStand(t, "soft:1")
	work := startWork(t, s.program, 2)
	quiet := func(d *dump) {
		for d.must2(quiesce(20*time.Second)).GetBusy() != "" {
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
			d.cancel() // phosd is gone
			file := s.files[0]
			for began := time.Now(); file.Word32(wire.WordGate).Load()&wire.GateClosed != 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > time.Minute {
					t.Fatal("the gate stays shut")
				}
			}
			if frozen {
				s.program.Thaw() // the watchdog
			}
			await(t, work, 3)
			s.settle()
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

// Commands that come in the wrong order end the checkpoint, not the program.
func TestOrder(t *testing.T) {
	s := newStand(t, "soft:1")
	thread := caller{t, s.program.NewThread()}
	for name, commands := range map[string][]*api.SaveCommand{
		"nothing at all":     {{}},
		"finish first":       {finish()},
		"cut first":          {cutNow(time.Second)},
		"quiesce first":      {quiesce(time.Second)},
		"resume first":       {resume()},
		"begin without pack": {begin(nil)},
		"begin by a guess":   {begin(make([]byte, fdtoken.TokenBytes))},
		"cut before quiesce": {nil, cutNow(time.Second)},
		"finish before cut":  {nil, quiesce(time.Second), finish()},
		"begin twice":        {nil, begin(make([]byte, fdtoken.TokenBytes))},
		"quiesce twice":      {nil, quiesce(time.Second), quiesce(time.Second)},
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
				t.Errorf("%v, %v, want ErrInvalid", done, err)
			}
			d.cancel()
			thread.ok(abi.CallPing, nil, nil)
			s.settle()
		})
	}
	s.t = t
	d := s.dump()
	d.begin()
	if _, err := s.dump().do(finish()); !errors.Is(err, api.ErrExhausted) {
		t.Errorf("a second checkpoint at a time: %v, want ErrExhausted", err)
	}
	d.end()
}

// While a stream is being captured the gate stays open, or the capture would never end.
func TestQuiesceDuringCapture(t *testing.T) {
	s := newStand(t, "soft:1")
	c := caller{t, s.program.NewThread()}
	c.Context = 1
	c.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	var stream wire.StreamCreateWithPriorityReply
	c.ok(abi.CallStreamCreateWithPriority, &wire.StreamCreateWithPriority{Flags: 1}, &stream)
	c.ok(abi.CallStreamBeginCapture, &wire.StreamBeginCapture{HStream: stream.PhStream}, nil)
	d := s.dump()
	d.begin()
	if done := d.must2(quiesce(30 * time.Millisecond)); !strings.Contains(done.GetBusy(), "captured") {
		t.Errorf("busy %q", done.GetBusy())
	}
	answer := make(chan *api.SaveDone)
	go func() { answer <- d.must2(quiesce(time.Minute)) }()
	for range 100 {
		c.ok(abi.CallPing, nil, nil)
		time.Sleep(time.Millisecond)
		select {
		case <-answer:
			t.Fatal("quiet although a stream is being captured")
		default:
		}
	}
	c.ok(abi.CallStreamEndCapture, &wire.StreamEndCapture{HStream: stream.PhStream}, &wire.StreamEndCaptureReply{})
	if done := <-answer; done.GetBusy() != "" {
		t.Errorf("busy %q", done.GetBusy())
	}
	s.program.Freeze()
	d.must(cutNow(time.Second))
	s.program.Thaw()
	d.must(resume())
	d.must(finish())
	d.end()
	c.ok(abi.CallPing, nil, nil)
}

// A function of the program that waits for what a thread at the gate holds: no checkpoint, and no
// deadlock.
func TestQuiesceGivesUp(t *testing.T) {
	s := newStand(t, "soft:1")
	c := caller{t, s.program.NewThread()}
	c.Context = 1
	c.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	c.Post(abi.CallHostFunc, &wire.HostFunc{Function: 1}) // nobody runs it
	d := s.dump()
	d.begin()
	done := d.must2(quiesce(50 * time.Millisecond))
	if !strings.Contains(done.GetBusy(), "host functions") {
		t.Errorf("busy %q", done.GetBusy())
	}
	c.ok(abi.CallPing, nil, nil) // the gate is open
	callback, found := s.program.TakeCallback()
	if !found {
		t.Fatal("no host function")
	}
	c.PostInternal(abi.CallCallbackDone, &wire.CallbackDone{Id: callback.ID})
	d.must(quiesce(time.Minute))
	d.end()
	c.ok(abi.CallPing, nil, nil)
}

// A thread that was past the gate already posts what needs the program: the cut says so at once.
func TestCutNeedsTheProgram(t *testing.T) {
	s := newStand(t, "soft:1")
	c := caller{t, s.program.NewThread()}
	c.Context = 1
	c.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	d := s.dump()
	d.begin()
	d.must(quiesce(time.Minute))
	c.PostInternal(abi.CallHostFunc, &wire.HostFunc{Function: 1})
	s.program.Freeze()
	if done := d.must2(cutNow(time.Hour)); !strings.Contains(done.GetBusy(), "has not returned") {
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
	// Another program of the same checkpoint was busy: once more.
	c.ok(abi.CallPing, nil, nil)
	d.must(quiesce(time.Minute))
	s.program.Freeze()
	d.must(cutNow(time.Minute))
	tree := d.must(finish()).GetResult().GetTree()
	d.end()
	s.restore(tree, false)
	c.ok(abi.CallPing, nil, nil)
}
