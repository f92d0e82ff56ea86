package control

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// TestNoRoom: a launch that does not want to wait runs if there is room, and ends with what is
// missing if there is none.
func TestNoRoom(t *testing.T) {
	for name, gpus := range map[string]int{"GPUs": 2, "places": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.join("a", 2)
			spec := simple(1, gpus)
			spec.Queue, spec.Place.WholeNodes = launch.Refuse, true
			first := w.launch(spec)
			w.await(first, launch.Running)
			running := a.awaitRunning(1)
			second := w.await(w.launch(spec), launch.Ended)
			if second.State.Result != launch.Failed || !strings.HasPrefix(second.State.Reason, "no room: ") {
				t.Errorf("the second ended as %s: %s", second.State.Result, second.State.Reason)
			}
			a.finish(running[0], 0)
			w.await(first, launch.Ended)
			w.await(w.launch(spec), launch.Running)
		})
	}
}

// TestRoomOfNewNode: a launch that does not want to wait, and that the schedulers learn of together
// with the first node, gets a place there. Without a node it ends.
func TestRoomOfNewNode(t *testing.T) {
	for name, gpus := range map[string]int{"GPUs": 2, "places": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := simple(1, gpus)
			spec.Queue = launch.Refuse
			checked, err := spec.Check()
			if err != nil {
				t.Fatal(err)
			}
			ended := w.await(w.launch(spec), launch.Ended)
			if r := ended.State.Reason; !strings.Contains(r, "no node has joined") || strings.Contains(r, "waits for more") {
				t.Errorf("without a node it ended because of %q", r)
			}
			var id string
			w.turn(func(l *Leader) {
				hello := &api.Hello{Node: "a", BootId: "boot 1", Inventory: &api.Inventory{Cpus: 8, MemoryBytes: 1 << 34}}
				for i := range gpus {
					gpu := &api.GPU{Index: uint32(i), Name: "Soft", MemoryBytes: 1 << 33}
					hello.Inventory.Gpus = append(hello.Inventory.Gpus, gpu)
				}
				if err := l.addNode(record.Node{Name: "a", BootID: "boot 1", Key: "key"}); err != nil {
					t.Error(err)
				}
				if err := l.attach("a", "key", hello, session.New()); err != nil {
					t.Error(err)
				}
				created, err := l.create(Submission{Spec: checked, Owner: "ada", By: "ada"})
				if err != nil {
					t.Error(err)
					return
				}
				id = created[0].ID
			})
			w.awaitEvent(id, "placed")
		})
	}
}
