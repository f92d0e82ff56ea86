package control

import (
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/victims"
	"github.com/phos-gpu/phos/tests/harness"
)

// urgentFirst are policies under which urgent launches take GPUs of others.
func urgentFirst() (scheduler.Policies, error) {
	return scheduler.Policies{Order: order.Priority{Preemptive: true}, Place: place.BestFit{}, Preempt: victims.Tail{}}, nil
}

// newUrgentWorld returns a cluster with these policies.
func newUrgentWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.depose()
	w.config.Policies = urgentFirst
	w.lead()
	return w
}

// urgent submits an urgent launch of one GPU.
func (w *world) urgent() string {
	w.Helper()
	spec := simple(1, 1)
	spec.Priority = 10
	return w.launch(spec)
}

// phase returns what the scheduler of GPUs takes a launch for, once it knows it.
func (w *world) phase(id string) scheduler.Phase {
	w.Helper()
	w.decided()
	var job cluster.JobID
	w.turn(func(l *Leader) { job = l.launches[id].parts[gang].id })
	phase := scheduler.Ended
	harness.Eventually(w.T, "the scheduler knows "+id, func() (known bool) {
		err := w.leader.queues[0].loop.Do(w.Context(), func(e *scheduler.Engine) {
			if found := e.Job(job); found != nil {
				phase, known = found.Phase(), true
			}
		})
		return err == nil && known
	})
	return phase
}

// pair returns a launch of two replicas, one of them without a GPU, which no policy may save.
func pair() launch.Spec {
	spec := simple(1, 1)
	spec.Checkpoint.On = []string{string(launch.OnSuspend)}
	spec.Jobs = append(spec.Jobs, simple(1, 0).Jobs...)
	spec.Jobs[1].Name = "helper"
	return spec
}

// TestVictimsCanBeSaved: an urgent launch takes the GPU of one that can be saved, though another
// one is next in the order of victims. With no other, it waits, and the scheduler knows what runs.
func TestVictimsCanBeSaved(t *testing.T) {
	w := newUrgentWorld(t)
	a := w.join("a", 2)
	savable := w.launch(simple(1, 1))
	a.awaitRunning(1)
	fixed := w.launch(pair())
	a.awaitRunning(3)
	first := w.urgent()
	w.await(first, launch.Running)
	w.await(savable, launch.Queued)
	second := w.urgent()
	for range 2 { // also for the next leader
		if got := w.phase(second); got != scheduler.Waiting {
			t.Errorf("the second urgent launch is in phase %d", got)
		}
		if got := w.phase(fixed); got != scheduler.Running {
			t.Errorf("the launch that runs on is in phase %d", got)
		}
		w.depose()
		a.detach()
		w.lead()
		a.attach()
	}
	if got := w.await(fixed, launch.Running); got.State.Replicas[0].Attempt != 1 {
		t.Errorf("it is in attempt %d", got.State.Replicas[0].Attempt)
	}
	for _, k := range a.awaitRunning(3) {
		a.finish(k, 0)
	}
	w.await(second, launch.Running)
	w.await(savable, launch.Running) // on either GPU
	a.awaitRunning(2)
}

// TestVictimIsNotSaved: a launch whose save for a more urgent one has failed runs on, is not asked
// again, and the urgent one starts where there is room. The scheduler has not lost either.
func TestVictimIsNotSaved(t *testing.T) {
	w := newUrgentWorld(t)
	a := w.join("a", 1)
	a.failing = "disk full"
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	urgent := w.urgent()
	w.awaitTurn(func(l *Leader) bool { return l.launches[id].SaveProblem != "" })
	if got := w.phase(id); got != scheduler.Running {
		t.Errorf("the scheduler takes it for one in phase %d", got)
	}
	if got := w.phase(urgent); got != scheduler.Waiting {
		t.Errorf("the scheduler takes the urgent one for one in phase %d", got)
	}
	b := w.join("b", 1)
	b.awaitRunning(1)
	w.await(urgent, launch.Running)
	got := w.await(id, launch.Running)
	if got.Saves != 1 || got.State.Replicas[0].Attempt != 1 {
		t.Errorf("it was to be saved %d times, and is in attempt %d", got.Saves, got.State.Replicas[0].Attempt)
	}
}

// TestKeptPlace: if the scheduler has stopped what cannot be stopped after all, what was to start
// there waits again, and the scheduler knows what runs.
func TestKeptPlace(t *testing.T) {
	w := newUrgentWorld(t)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	w.turn(func(l *Leader) { l.launches[id].State.Spec.Checkpoint.On = []string{"drain"} }) // the scheduler does not know
	urgent := w.urgent()
	w.awaitTurn(func(l *Leader) bool {
		p := l.launches[urgent].parts[gang]
		return p != nil && p.run > 0 && !p.starting && p.assigned == nil
	})
	if got := w.await(id, launch.Running); got.State.Replicas[0].Attempt != 1 || slices.Contains(kinds(got), "saved") {
		t.Errorf("it is in attempt %d, with events %v", got.State.Replicas[0].Attempt, kinds(got))
	}
}

// TestClockBehind: the scheduler of a leader whose clock is behind that of the one before it knows
// what runs, and what waits, and goes on with both.
func TestClockBehind(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	running := a.awaitRunning(1)
	waiting := w.launch(simple(1, 1))
	w.decided()
	w.turn(func(l *Leader) {
		for _, e := range l.launches {
			for _, at := range []*time.Time{&e.Submitted, &e.Queued, &e.Placed, &e.Started} {
				if !at.IsZero() {
					*at = at.Add(10 * time.Minute)
				}
			}
			l.changed(e)
		}
	})
	w.depose()
	a.detach()
	w.lead()
	a.attach()
	if got := w.phase(id); got != scheduler.Running {
		t.Errorf("what runs is in phase %d of the scheduler", got)
	}
	if got := w.phase(waiting); got != scheduler.Waiting {
		t.Errorf("what waits is in phase %d of the scheduler", got)
	}
	a.finish(running[0], 0)
	w.await(waiting, launch.Running)
}
