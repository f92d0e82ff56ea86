package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/tests/harness"
)

// trio is a launch of three replicas, two on node a and one on node b.
type trio struct {
	*world
	a, b *fakeAgent
	id   string
	onB  string // the attempt that runs there
}

// newTrio returns such a launch, which runs.
func newTrio(t *testing.T, change ...func(*launch.Spec)) *trio {
	t.Helper()
	w := newWorld(t)
	c := &trio{world: w, a: w.join("a", 2), b: w.join("b", 1)}
	spec := simple(3, 1)
	for _, each := range change {
		each(&spec)
	}
	c.id = w.launch(spec)
	c.a.awaitRunning(2)
	c.onB = c.b.awaitRunning(1)[0]
	w.awaitLaunch(c.id, "started", func(l *record.Launch) bool {
		return !slices.ContainsFunc(l.State.Replicas, func(r launch.Replica) bool { return r.Live && !r.Started })
	})
	return c
}

// stuckAt begins a cut, and waits until all parts but the one on b wait at a point: that one is
// held there.
func (c *trio) stuckAt(at ckpt.Point, begin func()) {
	c.Helper()
	c.b.holdAt(at)
	begin()
	c.a.awaitAt(at, 2)
	c.b.awaitAt(at, 1)
}

// checkpoint asks for a cut after which the launch runs on.
func (c *trio) checkpoint() (err error) {
	c.Helper()
	c.turn(func(l *Leader) { err = Turn{l}.Checkpoint(&l.launches[c.id].Launch, "ada") })
	return err
}

// mustCheckpoint asks for one, which is not refused.
func (c *trio) mustCheckpoint() {
	c.Helper()
	if err := c.checkpoint(); err != nil {
		c.Fatal(err)
	}
}

// suspend asks for a cut that stops the launch.
func (c *trio) suspend() {
	c.Helper()
	if err := c.act(c.id, launch.SuspendRequested{By: "ada"}); err != nil {
		c.Fatal(err)
	}
}

// awaitCuts waits until a number of cuts were taken.
func (c *trio) awaitCuts(count int) *record.Launch {
	c.Helper()
	return c.awaitLaunch(c.id, fmt.Sprintf("saved in %d cuts", count), func(l *record.Launch) bool {
		return countKind(l, "saved") >= count
	})
}

// countKind counts the events of a kind.
func countKind(l *record.Launch, kind string) (count int) {
	for _, each := range kinds(l) {
		if each == kind {
			count++
		}
	}
	return count
}

// takeOver replaces the leader.
func (c *trio) takeOver() {
	c.Helper()
	c.replace([]*fakeAgent{c.a, c.b}, c.objects)
}

// checkCut checks that the state's cut has one image of each of some replicas, all of one cut.
func (c *trio) checkCut(l *record.Launch, replicas ...int) (number int) {
	c.Helper()
	if got := slices.Sorted(maps.Keys(l.State.Cut)); !slices.Equal(got, replicas) {
		c.Fatalf("its cut is %v, want replicas %v", l.State.Cut, replicas)
	}
	numbers := map[int]bool{}
	for replica, name := range l.State.Cut {
		image := l.Image(name)
		if image == nil || image.Replica != replica || image.Cut == 0 {
			c.Fatalf("replica %d goes on from %q, which is %+v", replica, name, image)
		}
		numbers[image.Cut], number = true, image.Cut
	}
	if len(numbers) != 1 {
		c.Errorf("its images are of the cuts %v", numbers)
	}
	return number
}

// checkEnds checks that of the launch's attempts all, or none, have ended by their saves.
func (c *trio) checkEnds(bySave int) {
	c.Helper()
	count := map[string]int{}
	for _, a := range []*fakeAgent{c.a, c.b} {
		a.mu.Lock()
		for _, how := range a.cuts.ends {
			count[how]++
		}
		a.mu.Unlock()
	}
	if count["by its save"] != bySave || len(count) > 1 || bySave == 0 && len(count) > 0 {
		c.Errorf("attempts have ended %v, want %d by their saves", count, bySave)
	}
}

// awaitSuspended waits until the launch is suspended by a cut of some replicas, and resumes it: all
// go on from their images.
func (c *trio) awaitSuspended(replicas ...int) {
	c.Helper()
	got := c.await(c.id, launch.Suspended)
	c.checkCut(got, replicas...)
	c.checkEnds(len(replicas))
	c.resume(c.id)
	harness.Eventually(c, "the replicas run again", func() bool {
		return len(c.a.running())+len(c.b.running()) == len(replicas)
	})
	for _, a := range []*fakeAgent{c.a, c.b} {
		for _, k := range a.running() {
			a.mu.Lock()
			from := a.from[k]
			a.mu.Unlock()
			want := got.Image(got.State.Cut[int(from.GetReplica())])
			if from == nil || want == nil || from.GetDir() != want.Dir || from.GetGeneration() != want.Generation {
				c.Errorf("%s goes on from %v, want %v", k, from, want)
			}
		}
	}
}

// awaitRunsOn waits until the launch runs on after a cut that has failed, with the attempts of
// before.
func (c *trio) awaitRunsOn() *record.Launch {
	c.Helper()
	c.awaitEvent(c.id, "not saved")
	got := c.await(c.id, launch.Running)
	c.a.awaitRunning(2)
	c.b.awaitRunning(1)
	c.checkEnds(0)
	for i, r := range got.State.Replicas {
		if r.Attempt != 1 || !r.Live {
			c.Errorf("replica %d is in attempt %d, live %v", i, r.Attempt, r.Live)
		}
	}
	return got
}

// awaitFree waits until no save waits for others.
func (c *trio) awaitFree() {
	c.Helper()
	for _, a := range []*fakeAgent{c.a, c.b} {
		harness.Eventually(c, "no save of "+a.name+" waits for others", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.cuts.now) == 0
		})
	}
}

// TestCut: a launch is suspended by one cut of all replicas, on whichever nodes, and resumed from
// it.
func TestCut(t *testing.T) {
	c := newTrio(t)
	c.suspend()
	c.awaitSuspended(0, 1, 2)
	if got := c.b.logged(); !slices.Equal(got, []string{"ready", "quiesced", "frozen", "cut", "complete"}) {
		t.Errorf("the save on b was at %v", got)
	}
	got := c.await(c.id, launch.Running)
	if len(got.Images) != 3 || countKind(got, "saved") != 1 || countKind(got, "save ordered") != 1 {
		t.Errorf("%d images, events %v", len(got.Images), kinds(got))
	}
}

// TestCutAndRunsOn: after a cut that was asked for, all run on, and the launch would go on from it.
// The next one takes its place.
func TestCutAndRunsOn(t *testing.T) {
	c := newTrio(t)
	last := 0
	for count := 1; count <= 3; count++ {
		c.mustCheckpoint()
		got := c.awaitCuts(count)
		number := c.checkCut(got, 0, 1, 2)
		if got.State.Phase != launch.Running || number <= last || len(got.Images) != 3*count {
			t.Errorf("%s after cut %d, which follows %d, with %d images", got.State.Phase, number, last, len(got.Images))
		}
		for _, name := range got.State.Cut {
			if image := got.Image(name); image.Generation != uint64(count) {
				t.Errorf("cut %d has %s", count, name)
			}
		}
		last = number
	}
	c.a.awaitRunning(2)
	c.b.awaitRunning(1)
	c.checkEnds(0)
	c.suspend()
	c.awaitSuspended(0, 1, 2)
}

// lookAtCuts lets the leader look at the clock, as it does by itself now and then.
func (c *trio) lookAtCuts(later time.Duration) (asked int) {
	c.Helper()
	c.turn(func(l *Leader) {
		e := l.launches[c.id]
		cutter{l}.look(e, l.clock.Wall().Add(later))
		asked = e.Asked
	})
	return asked
}

// hourly is a launch that is saved each hour.
func hourly(spec *launch.Spec) { spec.Checkpoint.Every = launch.Duration(time.Hour) }

// TestCutEvery: the leader has a launch saved as often as it wants, counted from when it was asked
// last, and not while a replica starts.
func TestCutEvery(t *testing.T) {
	c := newTrio(t, hourly)
	if asked := c.lookAtCuts(59 * time.Minute); asked != 0 {
		t.Errorf("after 59 minutes it was asked for %d saves", asked)
	}
	c.turn(func(l *Leader) { l.launches[c.id].State.Replicas[1].Started = false })
	if asked := c.lookAtCuts(2 * time.Hour); asked != 0 {
		t.Errorf("while a replica starts it was asked for %d saves", asked)
	}
	c.turn(func(l *Leader) { l.launches[c.id].State.Replicas[1].Started = true })
	for count := 1; count <= 2; count++ {
		if asked := c.lookAtCuts(61 * time.Minute); asked != count {
			t.Errorf("after an hour it was asked for %d saves, want %d", asked, count)
		}
		c.checkCut(c.awaitCuts(count), 0, 1, 2)
		if asked := c.lookAtCuts(59 * time.Minute); asked != count {
			t.Errorf("less than an hour after save %d it was asked for %d", count, asked)
		}
	}
	c.takeOver()
	if asked := c.lookAtCuts(61 * time.Minute); asked != 3 {
		t.Errorf("another leader has asked for %d saves", asked)
	}
	c.awaitCuts(3)
}

// TestCutEveryWaits: a save that takes longer than the time between two is not given up for the
// next one.
func TestCutEveryWaits(t *testing.T) {
	c := newTrio(t, hourly)
	c.b.holdAt(ckpt.PointReady)
	c.lookAtCuts(61 * time.Minute)
	c.a.awaitAt(ckpt.PointReady, 2)
	if asked := c.lookAtCuts(3 * time.Hour); asked != 1 {
		t.Errorf("while replicas still copy, it was asked for %d saves", asked)
	}
	c.b.letGo()
	c.awaitCuts(1)
}

// TestCutFails: if one part fails, wherever it is, all run on, and the reason is known. The next
// cut succeeds.
func TestCutFails(t *testing.T) {
	for _, at := range points {
		for _, stop := range []bool{false, true} {
			if !stop && at == ckpt.PointComplete {
				continue
			}
			t.Run(fmt.Sprint(at, stop), func(t *testing.T) {
				c := newTrio(t)
				c.b.failAt(at, "disk full")
				if stop {
					c.suspend()
				} else {
					c.mustCheckpoint()
				}
				got := c.awaitRunsOn()
				i := slices.Index(kinds(got), "not saved")
				if text := got.Events[i].Text; !strings.Contains(text, " on b: disk full") || got.SaveProblem != "disk full" {
					t.Errorf("event %q, problem %q", text, got.SaveProblem)
				}
				if len(got.State.Cut) > 0 || len(got.Images) > 0 {
					t.Errorf("its cut is %v, its images %v", got.State.Cut, got.Images)
				}
				c.awaitFree()
				c.b.failAt(at, "")
				c.suspend()
				if got := c.await(c.id, launch.Suspended); got.SaveProblem != "" || countKind(got, "not saved") != 1 {
					t.Errorf("after a cut the problem is %q, events %v", got.SaveProblem, kinds(got))
				}
				c.awaitSuspended(0, 1, 2)
			})
		}
	}
}

// TestCutFailsRestartable: a launch that may be restarted gives its places back also if a part
// fails, and goes on from the cut before, with all replicas.
func TestCutFailsRestartable(t *testing.T) {
	c := newTrio(t, func(spec *launch.Spec) { spec.Restartable = true })
	c.mustCheckpoint()
	number := c.checkCut(c.awaitCuts(1), 0, 1, 2)
	c.b.failAt(ckpt.PointCut, "disk full")
	c.suspend()
	got := c.await(c.id, launch.Suspended)
	if after := c.checkCut(got, 0, 1, 2); after != number {
		t.Errorf("it goes on from cut %d, want %d", after, number)
	}
	if !strings.Contains(got.State.Reason, "disk full") {
		t.Errorf("the reason is %q", got.State.Reason)
	}
}

// TestCutBusy: if one part is busy, all try again, as often as it takes.
func TestCutBusy(t *testing.T) {
	c := newTrio(t)
	c.b.mu.Lock()
	c.b.cuts.busy = map[ckpt.Point]int{ckpt.PointQuiesced: 2, ckpt.PointCut: 1}
	c.b.mu.Unlock()
	c.suspend()
	c.awaitSuspended(0, 1, 2)
	want := []string{
		"ready", "quiesced", "again", "quiesced", "again", "quiesced", "frozen", "cut", "again",
		"quiesced", "frozen", "cut", "complete",
	}
	if got := c.b.logged(); !slices.Equal(got, want) {
		t.Errorf("the save on b was at %v, want %v", got, want)
	}
	if got := c.await(c.id, launch.Running); slices.Contains(kinds(got), "not saved") {
		t.Errorf("the events are %v", kinds(got))
	}
}

// TestCutTakeover: another leader goes on with a cut, wherever its parts wait, though some have
// heard what the leader before has decided, and others have not.
func TestCutTakeover(t *testing.T) {
	for _, at := range points {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprint(at, deaf), func(t *testing.T) {
				c := newTrio(t)
				if deaf { // b stays where it is, and the others go on to the next point
					c.b.holdAt(at)
					c.suspend()
					c.b.awaitAt(at, 1)
					c.a.awaitAt(at, 2)
					c.b.mu.Lock()
					c.b.cuts.deaf = true
					c.b.mu.Unlock()
					c.b.letGo()
					if next := slices.Index(points, at) + 1; next < len(points) {
						c.a.awaitAt(points[next], 2)
					}
				} else {
					c.stuckAt(at, c.suspend)
				}
				c.depose()
				c.a.detach()
				c.b.detach()
				c.b.mu.Lock()
				c.b.cuts.deaf = false
				c.b.mu.Unlock()
				c.lead()
				c.a.attach()
				c.b.attach()
				c.b.letGo()
				c.awaitSuspended(0, 1, 2)
			})
		}
	}
}

// TestEndTakeover: once the store has a cut, another leader ends what was saved and had not heard
// of it.
func TestEndTakeover(t *testing.T) {
	c := newTrio(t)
	c.a.holdAt(ckpt.PointComplete)
	c.suspend()
	c.a.awaitAt(ckpt.PointComplete, 2)
	c.b.awaitAt(ckpt.PointComplete, 1)
	c.turn(func(*Leader) {}) // it has heard of b
	c.b.detach()
	c.a.letGo()
	c.a.awaitRunning(0)
	if got := c.await(c.id, launch.Stopping); !got.State.Ending || got.State.Cutting {
		t.Errorf("it is ending %v, cutting %v", got.State.Ending, got.State.Cutting)
	}
	c.depose()
	c.a.detach()
	c.lead()
	c.b.attach()
	c.a.attach()
	c.awaitSuspended(0, 1, 2)
}

// TestAgentDiesInCut: a cut goes on although the agent of a part is started again in the middle of
// it.
func TestAgentDiesInCut(t *testing.T) {
	for _, at := range points {
		t.Run(string(at), func(t *testing.T) {
			c := newTrio(t)
			c.a.holdAt(at)
			c.suspend()
			c.a.awaitAt(at, 2)
			c.b.awaitAt(at, 1)
			c.turn(func(*Leader) {})
			c.b.begunAnew()
			c.a.letGo()
			got := c.await(c.id, launch.Suspended)
			c.checkCut(got, 0, 1, 2)
		})
	}
}

// TestAgentBegunAnew: an agent that is started again after a cut that was asked for is part of the
// next one.
func TestAgentBegunAnew(t *testing.T) {
	for name, stop := range map[string]bool{"asked": false, "suspended": true} {
		t.Run(name, func(t *testing.T) {
			c := newTrio(t)
			c.mustCheckpoint()
			c.awaitCuts(1)
			c.b.begunAnew()
			harness.Eventually(t, "its save arrives once more", func() bool {
				all := c.b.logged()
				return slices.Contains(all[slices.Index(all, "cut"):], "ready")
			})
			c.turn(func(*Leader) {})
			if stop {
				c.suspend()
				c.awaitSuspended(0, 1, 2)
				return
			}
			c.mustCheckpoint()
			c.checkCut(c.awaitCuts(2), 0, 1, 2)
		})
	}
}

// TestReplicaEndsInCut: a replica that ends in the middle of a cut is not in it; the others are
// saved without it.
func TestReplicaEndsInCut(t *testing.T) {
	for _, at := range points[1:] {
		t.Run(string(at), func(t *testing.T) {
			c := newTrio(t)
			c.stuckAt(at, c.suspend)
			c.b.finish(c.onB, 0)
			got := c.await(c.id, launch.Suspended)
			c.checkEnds(2)
			done := 0
			for i, r := range got.State.Replicas {
				if r.Done {
					done++
				} else if got.State.Cut[i] == "" {
					t.Errorf("replica %d is not in the cut %v", i, got.State.Cut)
				}
			}
			if done != 1 || len(got.State.Cut) != 2 {
				t.Errorf("%d replicas are done, and the cut is %v", done, got.State.Cut)
			}
		})
	}
}

// TestReplicaFailsInCut: a replica that fails in the middle of a cut ends the launch, and no save
// holds that up.
func TestReplicaFailsInCut(t *testing.T) {
	c := newTrio(t)
	c.b.holdAt(ckpt.PointFrozen)
	c.suspend()
	c.a.awaitAt(ckpt.PointFrozen, 2)
	c.b.finish(c.onB, 3)
	if got := c.await(c.id, launch.Ended); got.State.Result != launch.Failed {
		t.Errorf("it is %s: %s", got.State.Result, got.State.Reason)
	}
}

// TestStoppedInCut: a launch that is stopped in the middle of a cut ends.
func TestStoppedInCut(t *testing.T) {
	for _, at := range points {
		t.Run(string(at), func(t *testing.T) {
			c := newTrio(t)
			c.b.holdAt(at)
			c.suspend()
			c.a.awaitAt(at, 2)
			if err := c.act(c.id, launch.StopRequested{By: "ada"}); err != nil {
				t.Fatal(err)
			}
			if got := c.await(c.id, launch.Ended); got.State.Result != launch.Stopped || len(got.State.Cut) > 0 {
				t.Errorf("it is %s, with the cut %v", got.State.Result, got.State.Cut)
			}
			c.checkEnds(0)
		})
	}
}

// TestNodeGoneInCut: if the node of a part is given up, the launch gives its places back without a
// cut.
func TestNodeGoneInCut(t *testing.T) {
	c := newTrio(t)
	c.b.holdAt(ckpt.PointFrozen)
	c.suspend()
	c.a.awaitAt(ckpt.PointFrozen, 2)
	c.b.detach()
	c.turn(func(l *Leader) { l.giveUp(l.nodes["b"], "the test says so") })
	if got := c.await(c.id, launch.Suspended); len(got.State.Cut) > 0 {
		t.Errorf("its cut is %v", got.State.Cut)
	}
	c.a.awaitRunning(0)
}

// TestStaleArrival: a save that no one wants any longer is undone, and disturbs no other one.
func TestStaleArrival(t *testing.T) {
	c := newTrio(t)
	stale := &api.CutArrival{Number: 7, Step: 3, Point: string(ckpt.PointFrozen)}
	for _, stop := range []bool{false, true} {
		c.b.mu.Lock()
		stale.Stop = stop
		save := &fakeSave{order: &api.Order{Save: 7, Asked: 7}, stop: stop, step: 3, point: 2, waits: true}
		c.b.cuts.now[c.onB] = save
		c.b.changeReport(c.onB, func(r *api.Report) { r.Arrival = proto.CloneOf(stale) })
		c.b.mu.Unlock()
		c.awaitFree()
		c.b.mu.Lock() // it has never had such orders
		clear(c.b.cuts.last)
		clear(c.b.asked)
		c.b.mu.Unlock()
	}
	if got := c.b.logged(); !slices.Equal(got, []string{"no cut", "no cut"}) {
		t.Errorf("the saves were told %v", got)
	}
	got := c.await(c.id, launch.Running)
	if slices.Contains(kinds(got), "saved") || slices.Contains(kinds(got), "not saved") || got.Saves+got.Asked > 0 {
		t.Errorf("events %v, %d saves ordered, %d asked for", kinds(got), got.Saves, got.Asked)
	}
	c.suspend()
	c.awaitSuspended(0, 1, 2)
}

// TestSuspendedInCut: a launch is suspended although parts of a cut that was asked for wait for
// others, wherever they are.
func TestSuspendedInCut(t *testing.T) {
	for _, at := range points[:4] {
		t.Run(string(at), func(t *testing.T) {
			c := newTrio(t)
			c.stuckAt(at, c.mustCheckpoint)
			c.suspend()
			c.b.letGo()
			c.awaitSuspended(0, 1, 2)
		})
	}
}

// TestAskedInCut: a cut is taken although another one was asked for before its end.
func TestAskedInCut(t *testing.T) {
	for _, at := range points[:4] {
		t.Run(string(at), func(t *testing.T) {
			c := newTrio(t)
			c.stuckAt(at, c.mustCheckpoint)
			c.mustCheckpoint()
			c.b.letGo()
			c.checkCut(c.awaitCuts(1), 0, 1, 2)
			c.awaitFree()
		})
	}
}

// TestAskedTakeover: another leader lets all parts of a cut that was asked for go on, wherever they
// wait, though some have heard what the leader before has decided, and others have not.
func TestAskedTakeover(t *testing.T) {
	for _, at := range points[:4] {
		t.Run(string(at), func(t *testing.T) {
			c := newTrio(t)
			c.stuckAt(at, c.mustCheckpoint)
			c.b.mu.Lock()
			c.b.cuts.deaf = true
			c.b.mu.Unlock()
			c.b.letGo()
			c.a.awaitAt(at, 0)
			c.depose()
			c.a.detach()
			c.b.detach()
			c.b.mu.Lock()
			c.b.cuts.deaf = false
			c.b.mu.Unlock()
			c.lead()
			c.a.attach()
			c.b.attach()
			c.awaitFree()
			c.awaitLaunch(c.id, "saved or not", func(l *record.Launch) bool {
				return slices.Contains(kinds(l), "saved") || slices.Contains(kinds(l), "not saved")
			})
			c.await(c.id, launch.Running)
			c.checkEnds(0)
		})
	}
}

// TestLateImage: a launch that is suspended while it is saved has the images of whole cuts, and
// goes on from those by which it was stopped. The images of another cut that come late change
// nothing.
func TestLateImage(t *testing.T) {
	c := newTrio(t)
	c.b.holdAt(ckpt.PointCut)
	c.mustCheckpoint()
	c.a.awaitAt(ckpt.PointCut, 2)
	c.b.awaitAt(ckpt.PointCut, 1)
	c.b.mu.Lock() // it says that it is there, and hears nothing more
	c.b.wait(c.onB)
	harness.Eventually(t, "the saves on a have ended", func() bool {
		c.a.mu.Lock()
		defer c.a.mu.Unlock()
		return len(c.a.cuts.now) == 0
	})
	c.suspend()
	c.b.cuts.hold = ""
	c.b.mu.Unlock()
	got := c.await(c.id, launch.Suspended)
	byCut := map[int]map[int]bool{}
	for _, image := range got.Images {
		if byCut[image.Cut] == nil {
			byCut[image.Cut] = map[int]bool{}
		}
		if byCut[image.Cut][image.Replica] {
			t.Errorf("cut %d has two images of replica %d", image.Cut, image.Replica)
		}
		byCut[image.Cut][image.Replica] = true
	}
	for number, replicas := range byCut {
		if len(replicas) != 3 {
			t.Errorf("cut %d has images of %v", number, replicas)
		}
	}
	for _, name := range got.State.Cut {
		if image := got.Image(name); image.Generation < got.Images[len(got.Images)-1].Generation {
			t.Errorf("it goes on from %s, and has newer images", name)
		}
	}
	c.awaitSuspended(0, 1, 2)
}

// TestJoinsInCut: a replica that joins while a cut is taken holds up no other, and what is said to
// be saved is what the launch goes on from.
func TestJoinsInCut(t *testing.T) {
	for name, before := range map[string]bool{"before all are there": false, "before any is there": true} {
		t.Run(name, func(t *testing.T) {
			c := newTrio(t, func(spec *launch.Spec) { spec.Jobs[0].Replicas.Max = 4 })
			c.b.holdAt(ckpt.PointReady)
			if before {
				c.a.holdAt(ckpt.PointReady)
			}
			c.mustCheckpoint()
			c.a.awaitAt(ckpt.PointReady, 2)
			c.b.awaitAt(ckpt.PointReady, 1)
			d := c.join("d", 1)
			d.awaitRunning(1)
			c.a.letGo()
			c.b.letGo()
			c.awaitFree()
			c.turn(func(*Leader) {})
			got := c.await(c.id, launch.Running)
			if slices.Contains(kinds(got), "saved") && len(got.State.Cut) == 0 {
				t.Error("it is said to be saved, and has no cut")
			}
			c.mustCheckpoint()
			got = c.awaitLaunch(c.id, "saved with all", func(l *record.Launch) bool { return len(l.State.Cut) == 4 })
			c.checkCut(got, 0, 1, 2, 3)
		})
	}
}

// TestNoCutWithOldNode: a launch with a replica on a node that takes no part in cuts is not saved,
// and its user is told why.
func TestNoCutWithOldNode(t *testing.T) {
	c := newTrio(t, hourly)
	c.b.detach()
	c.b.old = true
	c.b.attach()
	for what, err := range map[string]error{
		"a checkpoint": c.checkpoint(), "a suspension": c.act(c.id, launch.SuspendRequested{By: "ada"}),
	} {
		if err == nil || !strings.Contains(err.Error(), "node b is of an older version") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if asked := c.lookAtCuts(2 * time.Hour); asked != 0 {
		t.Errorf("by its policy it was asked for %d saves", asked)
	}
	c.await(c.id, launch.Running)
	c.b.detach()
	c.b.old = false
	c.b.attach()
	c.suspend()
	c.awaitSuspended(0, 1, 2)
}

// TestOlderCutStays: the images of the cut before stay until all of the newer one have their
// copies: one of them is of no use without the others.
func TestOlderCutStays(t *testing.T) {
	w := newWorld(t)
	w.depose()
	w.config.Peers = 1
	w.lead()
	a, b, holder := w.sharing("a", 1), w.sharing("b", 1), w.sharing("c", 0)
	c := &trio{world: w, a: a, b: b, id: w.launch(simple(2, 1))}
	a.awaitRunning(1)
	b.awaitRunning(1)
	number := c.checkCut(w.suspended(c.id), 0, 1)
	w.awaitLaunch(c.id, "copied", func(l *record.Launch) bool {
		return !slices.ContainsFunc(l.Images, func(i record.Image) bool { return len(i.Copies) == 0 })
	})
	w.resume(c.id)
	a.awaitRunning(1)
	b.awaitRunning(1)
	w.await(c.id, launch.Running)
	holder.mu.Lock() // it copies nothing more
	c.mustCheckpoint()
	if newer := c.checkCut(c.awaitCuts(2), 0, 1); newer == number {
		t.Fatal("both cuts have one number")
	}
	w.turn(func(l *Leader) {
		e := l.launches[c.id]
		library{l}.holds(e, e.boundTo(0), l.nodes["c"])
	})
	w.turn(func(l *Leader) {
		e := l.launches[c.id]
		l.giveUp(l.nodes[e.State.Replicas[1].Node], "the test says so")
	})
	holder.mu.Unlock()
	got := w.awaitEvent(c.id, "image lost")
	if after := c.checkCut(got, 0, 1); after != number {
		t.Errorf("it goes back to cut %d, want %d", after, number)
	}
}

// TestUndoneBeforeTakeover: if a leader dies after it has told all parts that there is no cut, and
// before it has ordered another one, the next leader does that.
func TestUndoneBeforeTakeover(t *testing.T) {
	c := newTrio(t)
	c.b.holdAt(ckpt.PointFrozen)
	c.suspend()
	c.a.awaitAt(ckpt.PointFrozen, 2)
	c.b.awaitAt(ckpt.PointFrozen, 1)
	c.turn(func(l *Leader) {
		e := l.launches[c.id]
		v, tell := e.cut.meeting.Fail(fmt.Errorf("%w: the test says so", errOtherCut))
		cutter{l}.tell(e, v, tell)
	})
	c.a.awaitAt(ckpt.PointFrozen, 0)
	c.b.letGo()
	c.awaitFree()
	c.takeOver()
	c.awaitSuspended(0, 1, 2)
}

// TestTwoFail: what several parts have said of a cut that has failed is not said again of the next
// one.
func TestTwoFail(t *testing.T) {
	c := newTrio(t)
	c.a.failAt(ckpt.PointReady, "disk full")
	c.b.failAt(ckpt.PointReady, "no phosd runs")
	c.mustCheckpoint()
	c.awaitEvent(c.id, "not saved")
	c.awaitFree()
	c.turn(func(*Leader) {})
	c.a.failAt(ckpt.PointReady, "")
	c.b.failAt(ckpt.PointReady, "")
	before := countKind(c.await(c.id, launch.Running), "not saved")
	c.mustCheckpoint()
	got := c.awaitCuts(1)
	if after := countKind(got, "not saved"); after != before || got.SaveProblem != "" {
		t.Errorf("%d times not saved, before that cut %d times; the problem is %q", after, before, got.SaveProblem)
	}
}
