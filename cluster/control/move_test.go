package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// migrate asks for a move.
func (w *world) migrate(id, to string) (err error) {
	w.Helper()
	w.turn(func(l *Leader) { err = Turn{l}.Migrate(&l.launches[id].Launch, to, "ada") })
	return err
}

// look lets the leader look at the clock, as it does by itself now and then.
func (w *world) look(later time.Duration) {
	w.Helper()
	w.turn(func(l *Leader) {
		library{l}.copy()
		for _, e := range l.launches {
			mover{l}.look(e, l.clock.Wall().Add(later))
		}
	})
}

// TestMigrates: a launch is saved and copied while it runs, and goes on at the other node from its
// last image, of which that node has most.
func TestMigrates(t *testing.T) {
	w := newWorld(t)
	a := w.sharing("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	b := w.sharing("b", 1)
	if err := w.migrate(id, "b"); err != nil {
		t.Fatal(err)
	}
	b.awaitRunning(1)
	got := w.await(id, launch.Running)
	if got.MoveTo != "" || got.State.Replicas[0].Node != "b" || len(got.Images) != 2 {
		t.Errorf("it moves to %q, runs on %s, images %+v", got.MoveTo, got.State.Replicas[0].Node, got.Images)
	}
	all := kinds(got)
	at := 0
	for _, kind := range []string{"moves", "saved", "copied", "save ordered", "saved", "restored", "moved"} {
		next := slices.Index(all[at:], kind)
		if next < 0 {
			t.Fatalf("no %q after event %d of %v", kind, at, all)
		}
		at += next
	}
}

// TestMigrateSurvivesLeader: another leader goes on with a move, whatever the first one has seen.
func TestMigrateSurvivesLeader(t *testing.T) {
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprint(asked), func(t *testing.T) {
			w := newWorld(t)
			a := w.sharing("a", 1)
			id := w.launch(simple(1, 1))
			a.awaitRunning(1)
			b := w.sharing("b", 1)
			a.detach()
			w.turn(func(l *Leader) {
				e := l.launches[id]
				e.MoveTo = "b" // the record is all that the next leader knows
				if asked {
					e.Asked = 1
				}
				l.changed(e)
			})
			w.depose()
			b.detach()
			w.lead()
			b.attach()
			a.attach()
			b.awaitRunning(1)
			w.await(id, launch.Running)
		})
	}
}

// TestMigrateFails: a move that cannot succeed ends, and the launch runs on.
func TestMigrateFails(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(w *world, b *fakeAgent)
		says string
	}{
		"the copy fails":     {func(_ *world, b *fakeAgent) { b.mu.Lock(); b.failing = "disk full"; b.mu.Unlock() }, "disk full"},
		"the node is closed": {func(w *world, _ *fakeAgent) { w.close("b") }, "cordoned"},
		"the node is away": {func(w *world, b *fakeAgent) {
			b.detach()
			w.turn(func(l *Leader) { l.giveUp(l.nodes["b"], "the test says so") })
		}, "not ready any longer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.sharing("a", 1)
			id := w.launch(simple(1, 1))
			a.awaitRunning(1)
			b := w.sharing("b", 1)
			a.mu.Lock() // it makes no save yet
			var err error
			w.turn(func(l *Leader) { err = Turn{l}.Migrate(&l.launches[id].Launch, "b", "ada") })
			if err != nil {
				t.Fatal(err)
			}
			test.fail(w, b)
			a.mu.Unlock()
			for range 3 {
				w.look(0)
			}
			events := w.awaitEvent(id, "not moved").Events
			if !slices.ContainsFunc(events, func(e record.Event) bool {
				return e.Kind == "not moved" && strings.Contains(e.Text, test.says)
			}) {
				t.Errorf("the events are %v, want %q", events, test.says)
			}
			if got := w.await(id, launch.Running); got.State.Replicas[0].Node != "a" || got.MoveTo != "" {
				t.Errorf("it runs on %s, and moves to %q", got.State.Replicas[0].Node, got.MoveTo)
			}
		})
	}
}

// TestMigrateRefused: what cannot move is refused at once, with the reason.
func TestMigrateRefused(t *testing.T) {
	w := newWorld(t)
	a := w.sharing("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	waits := w.launch(simple(1, 1))
	w.await(waits, launch.Queued)
	if err := w.migrate(waits, "a"); !errors.Is(err, launch.ErrRefused) || !strings.Contains(err.Error(), "is queued") {
		t.Errorf("a queued launch: %v", err)
	}
	if err := w.act(waits, launch.StopRequested{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	if err := w.migrate(id, anyNode); !errors.Is(err, launch.ErrRefused) || !strings.Contains(err.Error(), "no other node") {
		t.Errorf("alone: %v", err)
	}
	w.join("old", 1)
	w.sharing("full", 0)
	w.sharing("closed", 1)
	w.close("closed")
	for to, says := range map[string]string{
		"a": "runs on node a already", "none": "no node is called", "old": "fetches no images", "full": "0 of the 1 GPUs",
		"closed": "not ready, or cordoned", anyNode: "node old",
	} {
		if err := w.migrate(id, to); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("to %s: %v, want %q", to, err, says)
		}
	}
}

// TestMigrateSaveFails: a save that fails as one has failed before ends the move, too.
func TestMigrateSaveFails(t *testing.T) {
	w := newWorld(t)
	a := w.sharing("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	w.sharing("b", 1)
	a.mu.Lock()
	a.failing = "disk full"
	a.mu.Unlock()
	for range 2 {
		before := len(w.await(id, launch.Running).Events)
		if err := w.migrate(id, "b"); err != nil {
			t.Fatal(err)
		}
		got := w.awaitLaunch(id, "not moved again", func(l *record.Launch) bool {
			return slices.Contains(kinds(l)[before:], "not moved")
		})
		if got.MoveTo != "" || got.State.Phase != launch.Running {
			t.Errorf("it moves to %q and is %s", got.MoveTo, got.State.Phase)
		}
	}
}

// TestNotStartedThere: a launch that cannot be started at the node to which it has moved goes on
// elsewhere.
func TestNotStartedThere(t *testing.T) {
	w := newWorld(t)
	a := w.sharing("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	b := w.sharing("b", 1)
	b.mu.Lock()
	b.refuses = "restore: a library is missing"
	b.mu.Unlock()
	if err := w.migrate(id, "b"); err != nil {
		t.Fatal(err)
	}
	w.awaitEvent(id, "not moved")
	if got := a.awaitRunning(1); !slices.Equal(got, []string{key(id, 0, 3)}) {
		t.Errorf("a runs %v", got)
	}
	w.await(id, launch.Running)
}

// TestDrainMoves: a drained node's launches move while they run. One without room is saved, and
// waits or takes the place of one that moves more slowly; none is lost.
func TestDrainMoves(t *testing.T) {
	w := newWorld(t)
	a := w.sharing("a", 3)
	for range 3 {
		w.launch(simple(1, 1))
	}
	a.awaitRunning(3)
	b, c := w.sharing("b", 1), w.sharing("c", 1)
	yes := true
	for range 2 { // once more
		w.turn(func(l *Leader) {
			change := &api.ChangeNodeRequest{Name: "a", Draining: &yes, SetLabels: map[string]string{"x": "y"}}
			if err := (Turn{l}).ChangeNode("root", change); err != nil {
				t.Error(err)
			}
		})
	}
	b.awaitRunning(1)
	c.awaitRunning(1)
	a.awaitRunning(0)
	w.turn(func(l *Leader) {
		waits, moved := 0, 0
		for _, e := range l.launches {
			all := kinds(&e.Launch)
			if e.State.Phase == launch.Queued && len(e.State.Cut) == 1 {
				waits++
			}
			if slices.Contains(all, "moves") {
				moved++
			}
			if slices.Contains(all, "not drained") || e.State.Phase == launch.Ended {
				t.Errorf("the events are %v", all)
			}
		}
		if waits != 1 || moved != 2 {
			t.Errorf("%d wait, and %d began to move", waits, moved)
		}
	})
}
