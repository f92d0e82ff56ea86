package control

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// points are where the saves of a cut wait for each other, in their order.
var points = []ckpt.Point{ckpt.PointReady, ckpt.PointQuiesced, ckpt.PointFrozen, ckpt.PointCut, ckpt.PointComplete}

// fakeSave is a save of an attempt in one cut with others. An attempt makes one at a time: what is
// ordered in that time waits.
type fakeSave struct {
	order *api.Order
	stop  bool
	step  uint32
	point int // of points
	// waits means that it has arrived there, held that the test keeps it from that.
	waits, held bool
}

// number is that of its cut.
func (s *fakeSave) number() uint32 {
	if s.stop {
		return s.order.GetSave()
	}
	return s.order.GetAsked()
}

// fakeSaves are the saves of an agent's attempts, and what the test wants of them.
type fakeSaves struct {
	now    map[string]*fakeSave
	orders map[string]*api.Order // the last ones
	last   map[string]uint32     // the last ordered saves that were made
	taken  map[string]uint64     // how many images there are
	ends   map[string]string     // how attempts have ended that shall end: "by its save" or "by force"
	log    []string              // where the saves were, and what they were told
	// hold is a point that no save reaches. fails says at which point saves fail, and busy how often
	// one has to try again there.
	hold  ckpt.Point
	fails map[ckpt.Point]string
	busy  map[ckpt.Point]int
	// deaf means that verdicts are lost.
	deaf bool
}

// newFakeSaves returns saves to which nothing happens.
func newFakeSaves() fakeSaves {
	return fakeSaves{
		now: map[string]*fakeSave{}, orders: map[string]*api.Order{}, last: map[string]uint32{}, taken: map[string]uint64{},
		ends: map[string]string{}, fails: map[ckpt.Point]string{}, busy: map[ckpt.Point]int{},
	}
}

// say reports something. Callers of this and of what follows hold the lock, unless it says
// otherwise.
func (a *fakeAgent) say(report *api.Report) {
	if a.leader != nil {
		a.leader.Receive(a.name, a.session, &api.FromAgent{Message: &api.FromAgent_Report{Report: report}})
	}
}

// changeReport changes the report of an attempt, and sends it.
func (a *fakeAgent) changeReport(k string, change func(*api.Report)) {
	next := proto.CloneOf(a.runs[k])
	change(next)
	a.runs[k] = next
	a.say(next)
}

// takePart follows an order to an attempt that is saved together with others.
func (a *fakeAgent) takePart(k string, o *api.Order) {
	c := &a.cuts
	c.orders[k] = o
	save := a.saveOf(k)
	switch {
	case o.GetDo() != "end":
		if save == nil {
			a.nextSave(k)
		}
	case save != nil && save.waits && points[save.point] == ckpt.PointComplete:
		c.ends[k] = "by its save"
		delete(c.now, k)
		complete := a.runs[k].GetArrival()
		a.changeReport(k, func(r *api.Report) { // agents say this before the end
			r.Save, r.Asked, r.SaveError, r.Arrival, r.Undone = save.order.GetSave(), save.order.GetAsked(), "", nil, false
		})
		a.changeReport(k, func(r *api.Report) {
			r.State, r.Saved, r.Image, r.ImageKey = "ended", true, complete.GetImage(), complete.GetImageKey()
		})
	default:
		c.ends[k] = "by force"
		delete(c.now, k)
		a.changeReport(k, func(r *api.Report) {
			r.State, r.Arrival, r.Exits = "ended", nil, []*api.Exit{{Signal: 9, Stopped: true}}
		})
	}
}

// saveOf returns the save of an attempt; nil: it makes none.
func (a *fakeAgent) saveOf(k string) *fakeSave {
	if a.runs[k].GetState() != "running" {
		delete(a.cuts.now, k)
	}
	return a.cuts.now[k]
}

// nextSave begins the save that is ordered, if one is.
func (a *fakeAgent) nextSave(k string) {
	o := a.cuts.orders[k]
	stop := o.GetDo() == "save" && o.GetSave() > a.cuts.last[k]
	if stop || o.GetAsked() > a.asked[k] {
		a.cuts.now[k] = &fakeSave{order: o, stop: stop}
		a.reach(k)
	}
}

// reach lets a save come to its point.
func (a *fakeAgent) reach(k string) {
	save := a.saveOf(k)
	save.step++
	at := points[save.point]
	switch problem := a.cuts.fails[at]; {
	case problem != "":
		a.endSave(k, problem, false)
	case at == a.cuts.hold:
		save.held = true
	default:
		a.wait(k)
	}
}

// wait tells the leader where a save waits.
func (a *fakeAgent) wait(k string) {
	save := a.saveOf(k)
	at := points[save.point]
	now := &api.CutArrival{Number: save.number(), Stop: save.stop, Step: save.step, Point: string(at)}
	if a.cuts.busy[at] > 0 {
		a.cuts.busy[at]--
		now.Busy = "a kernel runs"
	}
	if at == ckpt.PointComplete {
		a.cuts.taken[k]++
		now.Image, now.ImageKey = a.image(save.order, a.cuts.taken[k]), []byte("key of "+a.name)
	}
	save.waits, save.held = true, false
	a.cuts.log = append(a.cuts.log, string(at))
	a.changeReport(k, func(r *api.Report) { r.Arrival = now })
}

// decide follows a verdict.
func (a *fakeAgent) decide(v *api.CutVerdict) {
	at := v.GetAttempt()
	k := key(at.GetLaunch(), at.GetReplica(), at.GetAttempt())
	save := a.saveOf(k)
	if v == nil || save == nil || !save.waits || a.cuts.deaf || v.GetNumber() != save.number() || v.GetStop() != save.stop ||
		v.GetStep() != save.step && v.GetFailed() == "" {
		return
	}
	save.waits = false
	switch {
	case v.GetFailed() != "":
		a.cuts.log = append(a.cuts.log, "no cut")
		a.endSave(k, "the replicas were not saved in one cut: "+v.GetFailed(), true)
	case v.GetAgain():
		a.cuts.log = append(a.cuts.log, "again")
		save.point = 1
		a.reach(k)
	case points[save.point] == ckpt.PointCut && !save.stop:
		a.endSave(k, "", false)
	case points[save.point] == ckpt.PointComplete:
		a.w.Errorf("%s: a verdict at the end: %v", a.name, v) // the order to end comes instead
	default:
		save.point++
		a.reach(k)
	}
}

// endSave ends a save that does not end its attempt, and begins the next one.
func (a *fakeAgent) endSave(k, problem string, undone bool) {
	save := a.saveOf(k)
	delete(a.cuts.now, k)
	if save.stop {
		a.cuts.last[k] = save.order.GetSave()
	}
	a.asked[k] = max(a.asked[k], save.order.GetAsked())
	a.changeReport(k, func(r *api.Report) {
		if save.stop {
			r.Save = save.order.GetSave()
		}
		r.Asked, r.Arrival, r.SaveError, r.Undone = save.order.GetAsked(), nil, problem, undone
		if problem == "" {
			a.cuts.taken[k]++
			r.Image, r.ImageKey = a.image(save.order, a.cuts.taken[k]), []byte("key of "+a.name)
		}
	})
	a.nextSave(k)
}

// holdAt keeps saves from reaching a point. It takes the lock.
func (a *fakeAgent) holdAt(at ckpt.Point) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cuts.hold = at
}

// letGo ends that. It takes the lock.
func (a *fakeAgent) letGo() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cuts.hold = ""
	for _, k := range slices.Sorted(maps.Keys(a.cuts.now)) {
		if save := a.saveOf(k); save != nil && save.held {
			a.wait(k)
		}
	}
}

// failAt lets saves fail at a point; an empty problem: no longer. It takes the lock.
func (a *fakeAgent) failAt(at ckpt.Point, problem string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cuts.fails[at] = problem
}

// awaitAt waits until some saves are at a point, or are held there. It takes the lock.
func (a *fakeAgent) awaitAt(at ckpt.Point, count int) {
	a.w.Helper()
	harness.Eventually(a.w, fmt.Sprintf("%d saves of %s are at %s", count, a.name, at), func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		there := 0
		for _, save := range a.cuts.now {
			if points[save.point] == at && (save.waits || save.held) {
				there++
			}
		}
		return there == count
	})
}

// begunAnew is the agent with another process: it adopts what runs, and knows of no save. It takes
// the lock.
func (a *fakeAgent) begunAnew() {
	a.detach()
	a.mu.Lock()
	clear(a.cuts.now)
	clear(a.cuts.last)
	clear(a.asked)
	for k, r := range a.runs {
		if r.GetState() == "running" {
			a.runs[k] = &api.Report{Launch: r.GetLaunch(), Replica: r.GetReplica(), Attempt: r.GetAttempt(), State: "running"}
		}
	}
	a.mu.Unlock()
	a.attach()
}

// logged returns the log of an agent's saves.
func (a *fakeAgent) logged() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.cuts.log)
}
