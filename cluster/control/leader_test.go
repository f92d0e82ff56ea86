package control

import (
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// TestCourse: a launch is placed, runs and completes, and its place is given to the next one.
func TestCourse(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 2)
	first, second := w.launch(simple(2, 1)), w.launch(simple(1, 2))
	running := a.awaitRunning(2)
	if got := w.await(second, launch.Queued); got.Runs != 0 {
		t.Errorf("the second launch has had %d places", got.Runs)
	}
	for _, k := range running {
		a.finish(k, 0)
	}
	if got := w.await(first, launch.Ended); got.State.Result != launch.Completed {
		t.Errorf("got %s: %s", got.State.Result, got.State.Reason)
	}
	for _, k := range a.awaitRunning(1) {
		a.finish(k, 3)
	}
	got := w.await(second, launch.Ended)
	if exits := got.State.Replicas[0].Exits; got.State.Result != launch.Failed || len(exits) != 1 || exits[0].Code != 3 {
		t.Errorf("got %s with exits %v: %s", got.State.Result, exits, got.State.Reason)
	}
	var kinds []string
	for _, event := range got.Events {
		kinds = append(kinds, event.Kind)
	}
	for _, kind := range []string{"queued", "placed", "running", "ended"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no event %q in %v", kind, kinds)
		}
	}
}

// TestNoGPUs: launches without GPUs need none that is free.
func TestNoGPUs(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	w.launch(simple(1, 1))
	a.awaitRunning(1)
	w.launch(simple(3, 0))
	a.awaitRunning(4)
}

// TestTakeover: the next leader goes on with what runs, and starts nothing twice.
func TestTakeover(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 2)
	first, second := w.launch(simple(2, 1)), w.launch(simple(1, 1))
	running := a.awaitRunning(2)
	w.depose()
	a.detach()
	a.finish(running[0], 0) // while no leader is there
	w.lead()
	a.attach()
	w.await(first, launch.Running)
	a.finish(running[1], 0)
	w.await(first, launch.Ended)
	a.awaitRunning(1)
	w.await(second, launch.Running)
	for k, count := range a.ever {
		if count != 1 {
			t.Errorf("attempt %s was started %d times", k, count)
		}
	}
}

// TestNodeGone: what ran on a node that is silent for too long starts elsewhere, and not earlier.
func TestNodeGone(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	b := w.join("b", 1)
	a.detach()
	silent := func(beyond time.Duration) {
		w.turn(func(l *Leader) {
			l.nodes["a"].renewed = l.clock.Boot() - l.settings.Times.FenceAfter - l.settings.Times.Margin - beyond
			l.lookAtTheClock()
		})
	}
	silent(-30 * time.Second)
	w.decided()
	if got := w.await(id, launch.Running); got.State.Replicas[0].Attempt != 1 {
		t.Errorf("it has started elsewhere too early: %+v", got.State.Replicas[0])
	}
	silent(time.Second)
	b.awaitRunning(1)
	got := w.await(id, launch.Running)
	if r := got.State.Replicas[0]; r.Node != "b" || r.Attempt != 2 {
		t.Errorf("got %+v", r)
	}
	w.turn(func(l *Leader) {
		if !l.nodes["a"].Gone {
			t.Error("node a is not gone")
		}
	})
	// When it comes back, it is told to forget what it had.
	a.attach()
	a.awaitRunning(0)
}

// TestReboot: a node that comes back with another boot id has lost its processes; nothing waits.
func TestReboot(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	a.detach()
	a.boot, a.runs = "boot 2", map[string]*api.Report{}
	a.attach()
	a.awaitRunning(1)
	if got := w.await(id, launch.Running); got.State.Replicas[0].Attempt != 2 {
		t.Errorf("got attempt %d", got.State.Replicas[0].Attempt)
	}
}

// TestFencedAtTakeover: replicas whose nodes have stopped them while no leader was there start
// again.
func TestFencedAtTakeover(t *testing.T) {
	w := newWorld(t)
	a, b := w.join("a", 1), w.join("b", 1)
	id := w.launch(simple(2, 1))
	a.awaitRunning(1)
	b.awaitRunning(1)
	w.depose()
	a.detach()
	b.detach()
	a.fence()
	b.fence()
	w.lead()
	a.attach()
	b.attach()
	a.awaitRunning(1)
	b.awaitRunning(1)
	w.await(id, launch.Running)
}

// fence ends everything as a supervisor does whose deadline has passed.
func (a *fakeAgent) fence() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, r := range a.runs {
		a.runs[k] = &api.Report{
			Launch: r.GetLaunch(), Replica: r.GetReplica(), Attempt: r.GetAttempt(), State: "ended", Fenced: true,
			Exits: []*api.Exit{{Signal: 9, Stopped: true}},
		}
	}
}
