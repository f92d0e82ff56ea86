package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/tests/harness"
)

// act has a user ask for something, and returns the answer.
func (w *world) act(id string, event launch.Event) (err error) {
	w.Helper()
	w.turn(func(l *Leader) { err = Turn{l}.Act(&l.launches[id].Launch, event) })
	return err
}

// suspended suspends a launch, and waits until it is.
func (w *world) suspended(id string) *record.Launch {
	w.Helper()
	if err := w.act(id, launch.SuspendRequested{By: "ada"}); err != nil {
		w.Fatal(err)
	}
	return w.await(id, launch.Suspended)
}

// resume resumes a launch.
func (w *world) resume(id string) {
	w.Helper()
	if err := w.act(id, launch.ResumeRequested{By: "ada"}); err != nil {
		w.Fatal(err)
	}
}

// kinds returns the kinds of a launch's events.
func kinds(l *record.Launch) (all []string) {
	for _, event := range l.Events {
		all = append(all, event.Kind)
	}
	return all
}

// TestResumedWhereItsImageIs: a launch goes on from its image, on the node that has it, also when
// another one is free; a new leader knows that, too.
func TestResumedWhereItsImageIs(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 2)
	first, second := w.launch(simple(1, 1)), w.launch(simple(1, 1))
	a.awaitRunning(2)
	w.join("b", 2)
	got := w.suspended(second)
	if len(got.Images) != 1 || got.State.Cut[0] != got.Images[0].Name() {
		t.Errorf("its images are %+v, and its cut %v", got.Images, got.State.Cut)
	}
	w.depose()
	a.detach()
	w.lead()
	a.attach()
	w.resume(second)
	k := key(second, 0, 2)
	for !slices.Contains(a.awaitRunning(2), k) {
		t.Fatalf("it is not attempt 2 that runs: %v", a.running())
	}
	a.mu.Lock()
	if image := a.from[k]; image.GetDir() != got.Images[0].Dir || image.GetGeneration() != 1 {
		t.Errorf("it was started from %v", image)
	}
	a.mu.Unlock()
	if r := w.await(second, launch.Running).State.Replicas[0]; r.Node != "a" {
		t.Errorf("it runs on %s, and its image is on a", r.Node)
	}
	_ = first
}

// TestResumedOnFreeGPU: a launch whose GPU another one has got goes on on one that is free; on a
// node of an older version, on its own, once that is.
func TestResumedOnFreeGPU(t *testing.T) {
	for name, old := range map[string]bool{"new": false, "old": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.join("a", 2)
			a.detach()
			a.old = old
			a.attach()
			id, other := w.launch(simple(1, 1)), w.launch(simple(1, 1))
			a.awaitRunning(2)
			had := w.suspended(id).Images[0].GPUs
			taker := w.launch(simple(1, 1))
			if got := w.await(taker, launch.Running).State.Replicas[0].GPUs; !slices.Equal(got, had) {
				t.Fatalf("another launch runs on %v, not on %v", got, had)
			}
			a.awaitRunning(2)
			a.finish(key(other, 0, 1), 0)
			w.await(other, launch.Ended)
			w.resume(id)
			if old {
				w.await(id, launch.Queued)
				a.finish(key(taker, 0, 1), 0)
				w.await(taker, launch.Ended)
			}
			got := w.await(id, launch.Running).State.Replicas[0].GPUs
			if slices.Equal(got, had) != old {
				t.Errorf("it had GPUs %v and goes on with %v", had, got)
			}
		})
	}
}

// TestSupersededImages: a node learns that the images of earlier attempts are not needed, once the
// store has that of a later one.
func TestSupersededImages(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	w.suspended(id)
	w.resume(id)
	a.awaitRunning(1)
	if told := a.savedAttempts(); len(told) > 0 {
		t.Errorf("the node was told of %v, and attempt 1 is the first", told)
	}
	got := w.suspended(id)
	if len(got.Images) != 2 || !got.Superseded(&got.Images[0]) || got.Superseded(&got.Images[1]) {
		t.Errorf("its images are %+v", got.Images)
	}
	harness.Eventually(t, "the node is told of attempt 2", func() bool {
		return slices.Equal(a.savedAttempts(), []string{key(id, 0, 2)})
	})
}

// savedAttempts returns the attempts whose images the agent knows to be in the store.
func (a *fakeAgent) savedAttempts() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.saved)
}

// TestWaitsForItsImage: a launch whose image is on a closed node waits, and says for what. If that
// node is removed, it starts from its beginning on another one.
func TestWaitsForItsImage(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	w.suspended(id)
	b := w.join("b", 1)
	w.turn(func(l *Leader) { l.nodes["a"].Cordoned = true; l.lookAtLease(l.nodes["a"]) })
	w.resume(id)
	w.await(id, launch.Queued)
	w.turn(func(l *Leader) {
		reasons := strings.Join(l.blockers(l.launches[id].parts[gang]), "\n")
		if !strings.Contains(reasons, "its image is on the disk of node a") || !strings.Contains(reasons, "cordoned") {
			t.Errorf("it waits because of %s", reasons)
		}
		l.removeNode(l.nodes["a"], "root")
	})
	b.awaitRunning(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if image := b.from[key(id, 0, 2)]; image != nil {
		t.Errorf("it was started from %v", image)
	}
}

// TestSharedImage: a drained node's launch goes on elsewhere if all nodes have its image.
func TestSharedImage(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	spec := simple(1, 1)
	spec.Checkpoint.Directory = "/shared"
	id := w.launch(spec)
	a.awaitRunning(1)
	b := w.join("b", 1)
	w.turn(func(l *Leader) {
		l.nodes["a"].Draining = true
		l.lookAtLease(l.nodes["a"])
		l.drain(l.nodes["a"])
	})
	b.awaitRunning(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if image := b.from[key(id, 0, 2)]; image.GetDir() != "/shared" {
		t.Errorf("it was started from %v", image)
	}
}

// TestNotSavedRunsOn: a launch that cannot be saved runs on, its user is told, and the scheduler
// still knows that its GPU is taken.
func TestNotSavedRunsOn(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	a.failing = "disk full"
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	if err := w.act(id, launch.SuspendRequested{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	w.awaitEvent(id, "not saved")
	got := w.await(id, launch.Running)
	if !slices.Contains(kinds(got), "stopping") || !strings.Contains(got.State.Reason, "disk full") {
		t.Errorf("events %v, reason %q", kinds(got), got.State.Reason)
	}
	second := w.launch(simple(1, 1))
	w.decided()
	w.turn(func(l *Leader) {
		if p := l.launches[second].parts[gang]; p.assigned != nil || p.starting {
			t.Errorf("another launch gets the place %v", p.assigned)
		}
		if p := l.launches[id].parts[gang]; p == nil || p.assigned == nil {
			t.Error("the launch has lost its place")
		}
	})
}

// decided waits until the schedulers have handled all that they were told, and the leader all that
// they have decided.
func (w *world) decided() {
	w.Helper()
	for _, q := range w.leader.queues {
		if err := q.loop.Do(w.Context(), func(*scheduler.Engine) {}); err != nil {
			w.Fatal(err)
		}
	}
	w.turn(func(*Leader) {})
}

// TestRefused: launches that cannot be saved are refused by name, and by the reason.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 2)
	a.detach()
	a.old = true
	a.attach()
	id := w.launch(simple(2, 1))
	a.awaitRunning(2)
	err := w.act(id, launch.SuspendRequested{By: "ada"})
	if err == nil || !strings.Contains(err.Error(), "node a is of an older version") || !strings.Contains(err.Error(), "not restartable") {
		t.Errorf("got %v", err)
	}
	w.await(id, launch.Running)
}

// TestSeveralProcesses: a replica of several processes is saved, and goes on with as many GPUs as
// it had, whichever are free.
func TestSeveralProcesses(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 3)
	first := w.launch(simple(1, 1))
	a.awaitRunning(1)
	two := simple(1, 1)
	two.Jobs[0].Processes = append(two.Jobs[0].Processes, two.Jobs[0].Processes[0])
	id := w.launch(two)
	a.awaitRunning(2)
	got := w.suspended(id)
	if len(got.Images) != 1 || len(got.Images[0].GPUs) != 2 {
		t.Fatalf("its images are %+v", got.Images)
	}
	a.finish(key(first, 0, 1), 0)
	w.await(first, launch.Ended)
	w.resume(id)
	a.awaitRunning(1)
	r := w.await(id, launch.Running).State.Replicas[0]
	if r.Image != got.Images[0].Name() || !slices.Equal(r.GPUs, []int{0, 1}) {
		t.Errorf("it goes on from %s with GPUs %v, and had %v", r.Image, r.GPUs, got.Images[0].GPUs)
	}
}

// TestKeptImages: nodes keep the images of a launch that has waited for another one, whatever else
// ends, until it has completed.
func TestKeptImages(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 2)
	spec := simple(1, 1)
	first, other := w.launch(spec), w.launch(spec)
	spec.After = []string{first}
	saved := w.launch(spec)
	kept := func() (ids []string) {
		w.turn(func(l *Leader) { ids = l.keptImages() })
		return ids
	}
	a.finish(key(first, 0, 1), 0)
	w.await(saved, launch.Running)
	a.awaitRunning(2)
	w.suspended(saved)
	a.finish(key(other, 0, 1), 0)
	w.await(other, launch.Ended)
	if got := kept(); !slices.Equal(got, []string{saved}) {
		t.Errorf("images of %v are kept, want those of %s", got, saved)
	}
	w.resume(saved)
	a.awaitRunning(1)
	a.finish(key(saved, 0, 2), 0)
	w.await(saved, launch.Ended)
	if got := kept(); len(got) > 0 {
		t.Errorf("images of %v are kept after the end", got)
	}
}
