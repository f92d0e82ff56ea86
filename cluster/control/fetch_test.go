package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/tests/harness"
)

// sharing adds a node that sends and fetches images.
func (w *world) sharing(name string, gpus int) *fakeAgent {
	w.Helper()
	a := w.join(name, gpus)
	a.detach()
	a.shares = true
	a.attach()
	return a
}

// close lets a node get nothing new.
func (w *world) close(name string) {
	w.Helper()
	w.turn(func(l *Leader) { l.nodes[name].Cordoned = true; l.lookAtLease(l.nodes[name]) })
}

// TestFetches: a launch whose node is closed goes on on another one, which fetches its image, and
// on no node of an older version. Only that node may have the image.
func TestFetches(t *testing.T) {
	w := newWorld(t)
	a := w.sharing("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	image := w.suspended(id).Images[0]
	old := w.join("old", 1)
	w.close("a")
	w.resume(id)
	w.await(id, launch.Queued)
	w.turn(func(l *Leader) {
		reasons := strings.Join(l.blockers(l.launches[id].parts[gang]), "\n")
		if !strings.Contains(reasons, "its image is on the disk of node a, and cannot be fetched from there") {
			t.Errorf("it waits because of %s", reasons)
		}
	})
	b := w.sharing("b", 1)
	if got := b.awaitRunning(1); !slices.Equal(got, []string{key(id, 0, 2)}) || len(old.running()) > 0 {
		t.Fatalf("b runs %v, and the old node %v", got, old.running())
	}
	b.mu.Lock()
	from := b.fetched[key(id, 0, 2)]
	b.mu.Unlock()
	if from.GetNode() != "a" || from.GetAddress() != "10.0.0.1:9413" {
		t.Errorf("it is fetched from %v", from)
	}
	for _, test := range []struct {
		from, to, key string
		allowed       bool
	}{
		{"a", "b", "key of b", true},
		{"a", "b", "an earlier key of b", false},
		{"a", "old", "key of old", false},
		{"a", "none", "", false},
		{"old", "b", "key of b", false},
	} {
		var err error
		w.turn(func(l *Leader) {
			_, err = Turn{l}.MayFetch(&l.launches[id].Launch, test.from, &api.MayFetchRequest{
				Attempt:    &api.Attempt{Launch: id, Replica: 0, Attempt: uint32(image.Attempt)},
				Generation: image.Generation, Node: test.to, Key: test.key,
			})
		})
		if (err == nil) != test.allowed || err != nil && !errors.Is(err, api.ErrNotPermitted) {
			t.Errorf("from %s to %s with %q: %v", test.from, test.to, test.key, err)
		}
	}
}

// TestStaysWithItsImage: a launch goes on where its image is if there is room, and fetches nothing,
// whatever the placement prefers.
func TestStaysWithItsImage(t *testing.T) {
	for _, placement := range []string{"best-fit", "spread", "first-free"} {
		t.Run(placement, func(t *testing.T) {
			w := newWorld(t)
			w.depose()
			w.config.Placement = placement
			w.lead()
			first := w.sharing("a", 2)
			second := w.sharing("b", 2)
			id := w.launch(simple(1, 1))
			harness.Eventually(t, "it runs", func() bool { return len(first.running())+len(second.running()) == 1 })
			for range 3 {
				on := w.suspended(id).Images[0].Node
				w.resume(id)
				if got := w.await(id, launch.Running).State.Replicas[0].Node; got != on {
					t.Errorf("its image is on %s, and it goes on on %s", on, got)
				}
				harness.Eventually(t, "it runs", func() bool { return len(first.running())+len(second.running()) == 1 })
			}
		})
	}
}

// TestDrainSaves: on a drain, a launch that may be restarted is saved if other nodes fetch its
// image, and stopped if they do not.
func TestDrainSaves(t *testing.T) {
	for _, shares := range []bool{true, false} {
		t.Run(fmt.Sprint(shares), func(t *testing.T) {
			w := newWorld(t)
			a := w.join("a", 1)
			a.detach()
			a.shares = shares
			a.attach()
			spec := simple(1, 1)
			spec.Restartable = true
			id := w.launch(spec)
			a.awaitRunning(1)
			b := w.sharing("b", 1)
			yes := true
			w.turn(func(l *Leader) {
				if err := (Turn{l}).ChangeNode("root", &api.ChangeNodeRequest{Name: "a", Draining: &yes}); err != nil {
					t.Error(err)
				}
			})
			b.awaitRunning(1)
			b.mu.Lock()
			defer b.mu.Unlock()
			if image := b.from[key(id, 0, 2)]; (image != nil) != shares {
				t.Errorf("it goes on from %v", image)
			}
		})
	}
}

// TestUnreachableHolder: a launch whose image is on a node that does not answer waits for it, also
// when that node is given up or closed, and goes on as soon as it answers again.
func TestUnreachableHolder(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			w := newWorld(t)
			a := w.sharing("a", 1)
			id := w.launch(simple(1, 1))
			a.awaitRunning(1)
			w.suspended(id)
			b := w.sharing("b", 1)
			w.close("a")
			a.detach()
			w.turn(func(l *Leader) {
				if n := l.nodes["a"]; gone {
					l.giveUp(n, "the test says so")
				} else if n.session != nil {
					t.Error("a is still attached")
				}
			})
			w.resume(id)
			w.await(id, launch.Queued)
			for range 20 { // turns
				w.turn(func(l *Leader) {
					p := l.launches[id].parts[gang]
					if p.run > 1 || p.assigned != nil {
						t.Errorf("it was placed %d times", p.run)
					}
				})
			}
			a.attach()
			b.awaitRunning(1)
		})
	}
}

// TestImageWithoutKey: an image that other nodes could not restore stays where it is.
func TestImageWithoutKey(t *testing.T) {
	w := newWorld(t)
	a := w.sharing("a", 1)
	id := w.launch(simple(1, 1))
	a.awaitRunning(1)
	w.suspended(id)
	w.turn(func(l *Leader) { l.launches[id].Images[0].Key = nil })
	b := w.sharing("b", 1)
	w.close("a")
	w.resume(id)
	w.await(id, launch.Queued)
	w.turn(func(l *Leader) {
		if text := strings.Join(l.blockers(l.launches[id].parts[gang]), "\n"); !strings.Contains(text, "cannot be fetched") {
			t.Errorf("it waits because of %s", text)
		}
	})
	if left := b.running(); len(left) > 0 {
		t.Errorf("b runs %v", left)
	}
}

// TestGoesBackToCopy: a launch whose newest image is lost goes on from an older one that some node
// has, and from its beginning if none has any.
func TestGoesBackToCopy(t *testing.T) {
	for _, copied := range []bool{true, false} {
		t.Run(fmt.Sprint(copied), func(t *testing.T) {
			w := newWorld(t)
			if copied { // otherwise the older image is removed as soon as there is a later one
				w.depose()
				w.config.Peers = 1
				w.lead()
			}
			a, b := w.sharing("a", 1), w.sharing("b", 1)
			id := w.launch(simple(1, 1))
			harness.Eventually(t, "it runs", func() bool { return len(a.running())+len(b.running()) == 1 })
			holder, other := a, b
			if len(b.running()) == 1 {
				holder, other = b, a
			}
			older := w.suspended(id).Images[0]
			w.resume(id)
			holder.awaitRunning(1)
			if copied {
				w.awaitLaunch(id, "copied", func(l *record.Launch) bool { return len(l.Images[0].Copies) == 1 })
			}
			other.mu.Lock()
			other.failing = "disk full" // it gets no copy of the next one
			other.mu.Unlock()
			w.suspended(id)
			w.turn(func(l *Leader) {
				e, only := l.launches[id], library{l}.onlyOn(l.nodes[holder.name])
				if len(e.Images) != 2 || !slices.Equal(only, []string{id}) {
					t.Errorf("images %+v, only there %v", e.Images, only)
				}
				l.removeNode(l.nodes[holder.name], "root")
			})
			w.resume(id)
			other.awaitRunning(1)
			other.mu.Lock()
			defer other.mu.Unlock()
			got := other.from[key(id, 0, 3)]
			if (got != nil) != copied || copied && got.GetAttempt() != uint32(older.Attempt) {
				t.Errorf("it goes on from %v", got)
			}
			if source := other.fetched[key(id, 0, 3)]; source != nil {
				t.Errorf("it is fetched from %v, and it is there", source)
			}
		})
	}
}
