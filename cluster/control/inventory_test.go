package control

import (
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// has returns what a node with some GPUs of 8 GiB says of itself.
func has(gpus ...uint32) *api.Inventory {
	said := &api.Inventory{Cpus: 8, MemoryBytes: 1 << 34}
	for _, index := range gpus {
		said.Gpus = append(said.Gpus, &api.GPU{Index: index, Name: "Soft", MemoryBytes: 1 << 33})
	}
	return said
}

// says has the agent of a node say once what it has.
func (w *world) says(name string, said *api.Inventory) {
	w.Helper()
	w.turn(func(l *Leader) {
		l.receive(name, l.nodes[name].session, &api.FromAgent{Message: &api.FromAgent_Inventory{Inventory: said}})
	})
}

// gpus returns the GPUs of a node, as the leader knows them.
func (w *world) gpus(name string) (all []record.GPU) {
	w.Helper()
	w.turn(func(l *Leader) { all = slices.Clone(l.nodes[name].Inventory.GPUs) })
	return all
}

// TestMoreGPUsWhileBusy: GPUs that a node gets while a launch has some of it count when that has
// ended, also if a new leader has come since.
func TestMoreGPUsWhileBusy(t *testing.T) {
	for name, takeover := range map[string]bool{"the same leader": false, "a new leader": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.join("b", 2) // where the second launch could run, but for another one
			w.launch(simple(1, 2))
			b.awaitRunning(1)
			a := w.join("a", 1)
			w.launch(simple(1, 1))
			running := a.awaitRunning(1)
			two := w.launch(simple(1, 2))
			if takeover {
				w.depose()
				a.detach()
				b.detach()
				a.gpus = 2
				w.lead()
				a.attach()
				b.attach()
			} else {
				w.says("a", has(0, 1))
			}
			if got := w.gpus("a"); len(got) != 1 {
				t.Errorf("GPUs count while a launch runs: %+v", got)
			}
			a.finish(running[0], 0)
			if got := w.await(two, launch.Running); !slices.Equal(got.State.Replicas[0].GPUs, []int{0, 1}) {
				t.Errorf("the next launch has GPUs %v", got.State.Replicas[0].GPUs)
			}
		})
	}
}

// TestLostGPU: nothing starts on a GPU that a node has lost, while what runs on another one keeps
// its own. A GPU that comes back is used again.
func TestLostGPU(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 2)
	first := w.launch(simple(1, 1))
	running := a.awaitRunning(1)
	has0 := w.await(first, launch.Running).State.Replicas[0].GPUs[0]
	w.says("a", has(uint32(has0)))
	if got := w.gpus("a"); len(got) != 2 || got[1-has0].Bad == "" || got[has0].Bad != "" {
		t.Errorf("the GPUs are %+v", got)
	}
	second := w.launch(simple(1, 1))
	w.decided()
	w.await(second, launch.Queued)
	w.says("a", has(0, 1))
	a.awaitRunning(2)
	if got := w.await(second, launch.Running).State.Replicas[0].GPUs; !slices.Equal(got, []int{1 - has0}) {
		t.Errorf("the second launch has GPUs %v", got)
	}
	a.finish(running[0], 0)
}

// TestPhosdAway: a node keeps its GPUs while phosd cannot say which they are.
func TestPhosdAway(t *testing.T) {
	w := newWorld(t)
	w.join("a", 1)
	w.says("a", &api.Inventory{Cpus: 8, MemoryBytes: 1 << 34, PhosdError: "no phosd"})
	if got := w.gpus("a"); len(got) != 1 || got[0].Bad != "" {
		t.Errorf("the GPUs are %+v", got)
	}
}
