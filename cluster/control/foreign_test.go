package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// used adds a process outside phos to a GPU.
func used(said *api.Inventory, gpu int) *api.Inventory {
	held := uint64(4 << 30)
	g := said.GetGpus()[gpu]
	g.Foreign, g.ForeignProcesses = 1, []*api.ForeignProcess{{Pid: 123, UsedBytes: &held}}
	return said
}

// why returns what the leader says of why a launch waits.
func (w *world) why(id string) (text string) {
	w.Helper()
	w.turn(func(l *Leader) { text = strings.Join(l.blockers(l.launches[id].parts[gang]), "\n") })
	return text
}

// TestForeignUse: nothing starts on a GPU while something foreign uses it, and phos why names that.
// It is free again afterwards, also if a new leader has come since, or the node was away.
func TestForeignUse(t *testing.T) {
	for name, between := range map[string]func(*world, *fakeAgent){
		"the leader stays": func(*world, *fakeAgent) {},
		"another leader": func(w *world, a *fakeAgent) {
			w.depose()
			a.detach()
			w.lead()
			a.attach()
			w.says("a", used(has(0, 1), 0))
		},
		"the node was given up": func(w *world, _ *fakeAgent) {
			w.turn(func(l *Leader) {
				n := l.nodes["a"]
				l.giveUp(n, "a test")
				n.Gone = false
				l.lookAtLease(n)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.join("a", 2)
			w.says("a", used(has(0, 1), 0))
			between(w, a)
			first := w.launch(simple(1, 1))
			if got := w.await(first, launch.Running).State.Replicas[0].GPUs; !slices.Equal(got, []int{1}) {
				t.Errorf("the first launch has GPUs %v", got)
			}
			second := w.launch(simple(1, 1))
			w.decided()
			w.await(second, launch.Queued)
			want := "GPU 0 of node a: used by 1 process outside phos (pid 123, 4 GiB)"
			if got := w.why(second); got != want {
				t.Errorf("why: %q, want %q", got, want)
			}
			w.says("a", has(0, 1))
			if got := w.await(second, launch.Running).State.Replicas[0].GPUs; !slices.Equal(got, []int{0}) {
				t.Errorf("the second launch has GPUs %v", got)
			}
		})
	}
}

// TestForeignBesideLaunch: a launch keeps its GPU when something foreign begins to use it, too; the
// next one does not get it.
func TestForeignBesideLaunch(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	w.launch(simple(1, 1))
	running := a.awaitRunning(1)
	w.says("a", used(has(0), 0))
	second := w.launch(simple(1, 1))
	a.finish(running[0], 0)
	a.awaitRunning(0)
	w.decided()
	w.await(second, launch.Queued)
	w.says("a", has(0))
	w.await(second, launch.Running)
}
