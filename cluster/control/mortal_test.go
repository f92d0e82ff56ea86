package control

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// mortal is the store of a leader that dies at one of its writes: before it is done, or after it
// but before the answer comes. From then on the store does not answer.
type mortal struct {
	store.Store
	after bool
	mu    sync.Mutex
	left  int
	died  chan struct{}
}

// arm lets the leader die at its write of a number from now on.
func (m *mortal) arm(write int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = write
}

// dies counts a write, and reports whether the leader dies with it, or has died before.
func (m *mortal) dies() (now, before bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	if m.left == -1 {
		close(m.died)
	}
	return m.left == -1, m.left < -1
}

// Put writes, unless the leader has died.
func (m *mortal) Put(ctx context.Context, w store.Write) (store.Revision, error) {
	now, before := m.dies()
	if before || now && !m.after {
		return 0, store.ErrUnavailable
	}
	revision, err := m.Store.Put(ctx, w)
	if now {
		return 0, store.ErrUnavailable
	}
	return revision, err
}

// Delete deletes, unless the leader has died.
func (m *mortal) Delete(ctx context.Context, w store.Write) error {
	now, before := m.dies()
	if before || now && !m.after {
		return store.ErrUnavailable
	}
	err := m.Store.Delete(ctx, w)
	if now {
		return store.ErrUnavailable
	}
	return err
}

// TestDiesAtEachWrite: a leader dies at any one of the writes of a launch, which fails once and is
// tried again. The next leader finishes what it finds: nothing starts twice, nothing is forgotten,
// and a request that is repeated creates nothing a second time.
func TestDiesAtEachWrite(t *testing.T) {
	w := newWorld(t)
	agents := []*fakeAgent{w.join("a", 1), w.join("b", 1)}
	for _, after := range []bool{false, true} {
		writes := rounds.First(5)
		for w.course(agents, writes, after) {
			writes += rounds.Of(5, 1)
		}
		t.Logf("about %d writes, death after them: %v", writes, after)
		if writes < 5 {
			t.Errorf("the course of a launch has only %d writes", writes)
		}
	}
	for _, a := range agents {
		for k, count := range a.ever {
			if count > 1 {
				t.Errorf("%s has started %s %d times", a.name, k, count)
			}
		}
	}
}

// course lets a launch run to its end under a leader that dies at its write of a number. It reports
// whether the leader died.
func (w *world) course(agents []*fakeAgent, write int, after bool) (died bool) {
	w.Helper()
	m := &mortal{Store: w.objects, after: after, left: math.MaxInt, died: make(chan struct{})}
	w.replace(agents, m)
	m.arm(write)
	request := fmt.Sprintf("course %d %v", write, after)
	deadline := time.Now().Add(harness.Patience)
	for {
		select {
		case <-m.died:
			if !died {
				w.replace(agents, w.objects)
				died = true
			}
		default:
		}
		state, err := w.submitOnce(request)
		if err == nil && state.Phase == launch.Ended {
			w.checkCourse(request, state)
			for _, a := range agents {
				a.awaitNothing()
			}
			return died
		}
		if time.Now().After(deadline) {
			w.Fatalf("%s does not end: %+v %v", request, state, err)
		}
		for _, a := range agents {
			a.finishAsCourse()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// replace lets a leader with another store take over.
func (w *world) replace(agents []*fakeAgent, objects store.Store) {
	w.Helper()
	w.depose()
	for _, a := range agents {
		a.detach()
	}
	w.leadOn(objects)
	for _, a := range agents {
		a.attach()
	}
}

// submitOnce submits the launch of a request, or finds it, and returns its state.
func (w *world) submitOnce(request string) (state launch.State, err error) {
	spec := simple(2, 1)
	spec.Jobs[0].Retries = 1
	checked, err := spec.Check()
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	return state, w.leader.ask(ctx, func() error {
		created, err := w.leader.create(Submission{Spec: checked, Owner: "ada", By: "ada", Request: request})
		if err == nil {
			state = w.leader.launches[created[0].ID].State
		}
		return err
	})
}

// checkCourse checks how a launch has ended.
func (w *world) checkCourse(request string, state launch.State) {
	w.Helper()
	if state.Result != launch.Completed {
		w.Errorf("%s: %s: %s", request, state.Result, state.Reason)
	}
	for i, r := range state.Replicas {
		if r.Attempt != 2 {
			w.Errorf("%s: replica %d is in attempt %d, want 2", request, i, r.Attempt)
		}
	}
	w.turn(func(l *Leader) {
		count := 0
		for _, e := range l.launches {
			if e.Request == request {
				count++
			}
		}
		if count != 1 {
			w.Errorf("%s has created %d launches", request, count)
		}
	})
}

// finishAsCourse ends what runs: the first attempt of replica 0 fails, all others succeed.
func (a *fakeAgent) finishAsCourse() {
	for _, k := range a.running() {
		a.mu.Lock()
		report := a.runs[k]
		a.mu.Unlock()
		code := int32(0)
		if report.GetReplica() == 0 && report.GetAttempt() == 1 {
			code = 1
		}
		a.finish(k, code)
	}
}
