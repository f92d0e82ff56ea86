package control

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestForget: nothing is left of a launch that ended long ago.
func TestForget(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	a.finish(a.awaitRunning(1)[0], 0)
	w.await(id, launch.Ended)
	w.launch(simple(1, 1)) // the number of the latest launch must stay known
	w.turn(func(l *Leader) {
		e := l.launches[id]
		l.settings.KeepEnded = -time.Second
		l.lookAtTheClock()
		if l.find(id) != nil {
			t.Error("the launch is still there")
		}
		for _, q := range l.queues {
			if _, known := q.next[e]; known {
				t.Errorf("the queue of %s still counts its jobs", q.name)
			}
		}
	})
}

// TestGrown: a launch that was larger than all nodes together runs once there are enough.
func TestGrown(t *testing.T) {
	w := newWorld(t)
	w.launch(simple(2, 1))
	a := w.join("a", 1)
	w.awaitTurn(func(l *Leader) bool {
		for _, p := range l.queues[0].parts {
			return p.tooLarge
		}
		return false
	})
	b := w.join("b", 1)
	a.awaitRunning(1)
	b.awaitRunning(1)
}

// TestInventoryChanges: an idle node whose GPUs have changed is open with the new ones at once.
func TestInventoryChanges(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	w.awaitTurn(func(l *Leader) bool { return l.nodes["a"].open })
	w.turn(func(l *Leader) {
		n := l.nodes["a"]
		l.inventory(n, &api.Inventory{Cpus: 8, MemoryBytes: 1 << 34, Gpus: []*api.GPU{
			{Index: 0, Name: "Soft", MemoryBytes: 1 << 33}, {Index: 1, Name: "Soft", MemoryBytes: 1 << 33},
		}})
		if !n.open {
			t.Error("the node is closed until the next tick")
		}
	})
	w.launch(simple(2, 1))
	a.awaitRunning(2)
}

// TestGrownNode: the same, if the node that makes it fit is one that opens again with more GPUs.
func TestGrownNode(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	w.awaitTurn(func(l *Leader) bool { return l.nodes["a"].open })
	w.turn(func(l *Leader) {
		n := l.nodes["a"]
		l.setOpen(n, false)
		n.Inventory.GPUs = append(n.Inventory.GPUs, record.GPU{Index: 1, Name: "Soft", MemoryBytes: 1 << 33})
		l.factsChanged(n)
	})
	w.launch(simple(2, 1))
	a.awaitRunning(2)
}

// awaitTurn makes turns until one of them finds what it looks for.
func (w *world) awaitTurn(found func(*Leader) bool) {
	w.Helper()
	harness.Eventually(w.T, "a turn finds it", func() (done bool) {
		w.turn(func(l *Leader) { done = found(l) })
		return done
	})
}
