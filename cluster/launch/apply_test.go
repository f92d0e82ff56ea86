package launch

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// world is what agents see and do: processes on nodes, and reports that come late, twice and in any
// order. It follows the orders of a launch and shares no rule with it.
type world struct {
	t      *testing.T
	random *rand.Rand
	state  State
	// fair means that nothing fails from now on, and that all that is asked for is given.
	fair    bool
	nodes   []string
	running map[string]map[int]int // node → replica → attempt
	seen    map[[2]int]bool        // replica and attempt that were started once
	mail    []Event
	log     []Event
	trace   []string
}

func newWorld(t *testing.T, seed uint64, spec Spec) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), state: New(spec), nodes: []string{"a", "b", "c"},
		running: make(map[string]map[int]int), seen: make(map[[2]int]bool),
	}
	for _, node := range w.nodes {
		w.running[node] = make(map[int]int)
	}
	return w
}

// event applies an event, and checks what must always hold.
func (w *world) event(e Event) {
	next, err := w.state.Apply(e)
	w.trace = append(w.trace, fmt.Sprintf("%T%+v: %s %s %v", e, e, next.Phase, next.Goal, err))
	if err == nil {
		w.log = append(w.log, e)
	} else if !reflect.DeepEqual(next, w.state) {
		w.fail("a refused event changed the state")
	}
	w.state = next
	w.check()
}

func (w *world) fail(format string, arguments ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-40):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, arguments...)
}

// check compares the processes in the world with the state.
func (w *world) check() {
	count := make(map[int]int)
	for node, replicas := range w.running {
		for replica, attempt := range replicas {
			count[replica]++
			r := w.state.Replicas[replica]
			if !r.Live || r.Attempt != attempt || r.Node != node {
				w.fail("replica %d runs on %s as attempt %d, but the launch says %+v", replica, node, attempt, r)
			}
		}
	}
	for replica, copies := range count {
		if copies > 1 {
			w.fail("replica %d runs %d times", replica, copies)
		}
	}
	if w.state.Phase == Ended && len(count) > 0 {
		w.fail("ended, and %d replicas run", len(count))
	}
}

// step lets something happen.
func (w *world) step() {
	switch w.random.IntN(6) {
	case 0:
		w.place()
	case 1:
		w.obey()
	case 2:
		w.deliver()
	case 3:
		w.endSomething()
	case 4:
		if w.fair {
			w.resume()
		} else {
			w.disturb()
		}
	default:
		w.obey()
		w.deliver()
	}
}

// place is a scheduler: it gives what is asked for, or, if it is not fair, part of it.
func (w *world) place() {
	need := w.state.Pending()
	var chosen []int
	if w.fair || w.random.IntN(4) > 0 {
		chosen = append(chosen, need.Together...)
	}
	for _, each := range need.Single {
		if w.random.IntN(2) == 0 {
			chosen = append(chosen, each)
		}
	}
	if len(chosen) == 0 {
		if !w.fair && w.random.IntN(20) == 0 {
			w.event(NoRoom{"GPUs"})
		}
		return
	}
	starts := w.state.Phase == Queued
	var e Placed
	for _, each := range chosen {
		e.Assignments = append(e.Assignments, Assignment{Replica: each, Node: w.nodes[w.random.IntN(len(w.nodes))]})
	}
	w.event(e)
	if starts && w.state.Phase == Running {
		w.checkWhole()
	}
}

// checkWhole checks that a launch that was just placed has what must start together. Independent
// replicas that were not there at the cut may come later.
func (w *world) checkWhole() {
	for job, j := range w.state.Spec.Jobs {
		there := 0
		for i, r := range w.state.Replicas {
			if r.Job == job && (r.Live || r.Done || r.Lost) {
				there++
			}
			if w.state.Cut[i] != "" && !r.Live && !r.Done && !r.Lost {
				w.fail("replica %d was in the cut and is not there", i)
			}
		}
		independent := j.OnReplicaFailure == KeepOthers && len(w.state.Cut) > 0
		if there < j.Replicas.Min && !independent {
			w.fail("job %s runs with %d replicas of at least %d", j.Name, there, j.Replicas.Min)
		}
	}
}

// obey lets the agents of all nodes follow the orders.
func (w *world) obey() {
	cutting := false
	for _, o := range w.state.Orders() {
		on := w.running[o.Node]
		attempt, runs := on[o.Replica]
		switch {
		case o.Do == Run && !w.seen[[2]int{o.Replica, o.Attempt}]:
			on[o.Replica] = o.Attempt
			w.seen[[2]int{o.Replica, o.Attempt}] = true
			w.send(ReplicaStarted{o.Replica, o.Attempt})
		case o.Do == End && runs && w.random.IntN(3) > 0:
			delete(on, o.Replica)
			w.send(ReplicaEnded{o.Replica, attempt, nil})
		case o.Do == Stop && runs:
			delete(on, o.Replica)
			w.send(ReplicaEnded{o.Replica, attempt, []Exit{{Signal: 15, Stopped: true}}})
		case o.Do == Stop && !w.seen[[2]int{o.Replica, o.Attempt}]:
			w.seen[[2]int{o.Replica, o.Attempt}] = true // never to be started
			w.send(ReplicaEnded{o.Replica, o.Attempt, []Exit{{Error: "stopped before it started", Stopped: true}}})
		case o.Do == Save:
			cutting = true
		}
	}
	if cutting {
		w.save()
	}
}

// save takes a cut, if all replicas that should run do.
func (w *world) save() {
	images := make(map[int]string)
	for _, o := range w.state.Orders() {
		if o.Do != Save {
			continue
		}
		if w.running[o.Node][o.Replica] != o.Attempt {
			w.event(SaveFailed{"not all run"})
			return
		}
		images[o.Replica] = fmt.Sprintf("image %d.%d", o.Replica, o.Attempt)
	}
	if !w.fair && w.random.IntN(3) == 0 {
		w.event(SaveFailed{"disk full"})
		return
	}
	if w.random.IntN(2) == 0 {
		w.event(CutTaken{images})
		for _, o := range w.state.Orders() {
			if o.Do != End && o.Do != Stop {
				w.fail("after its cut, replica %d shall %s", o.Replica, o.Do)
			}
		}
		return
	}
	for replica := range images {
		for _, on := range w.running {
			delete(on, replica)
		}
	}
	w.event(Saved{images})
}

// endSomething lets a process end by itself.
func (w *world) endSomething() {
	for _, node := range w.nodes {
		for _, replica := range slices.Sorted(maps.Keys(w.running[node])) {
			if w.random.IntN(4) > 0 {
				continue
			}
			attempt := w.running[node][replica]
			delete(w.running[node], replica)
			exit := Exit{}
			if !w.fair && w.random.IntN(3) == 0 {
				exit.Code = 1 + w.random.IntN(2)
			}
			w.send(ReplicaEnded{replica, attempt, []Exit{exit}})
			return
		}
	}
}

// disturb lets nodes die, and people and policies interfere.
func (w *world) disturb() {
	switch w.random.IntN(10) {
	case 9:
		w.drain()
	case 8:
		w.event(ImagesLost{})
		if len(w.state.Cut) > 0 && w.state.Phase != Ended && w.state.Goal != ToEnd {
			w.fail("the cut is still there")
		}
	case 0:
		node := w.nodes[w.random.IntN(len(w.nodes))]
		clear(w.running[node])
		// What the node had sent may still arrive, but nothing starts there for this attempt again.
		for _, o := range w.state.Orders() {
			if o.Node == node {
				w.seen[[2]int{o.Replica, o.Attempt}] = true
			}
		}
		w.event(NodeGone{node})
	case 1:
		w.event(SuspendRequested{"ada"})
	case 2, 3:
		w.event(ResumeRequested{"ada"})
	case 4:
		w.event(Preempted{"a policy"})
	case 5:
		if w.random.IntN(20) == 0 {
			w.event(StopRequested{"ada"})
		}
	case 6:
		if w.random.IntN(20) == 0 {
			w.event(TimeLimitReached{})
		}
	case 7:
		if w.state.Phase == Waiting {
			w.event(DependenciesCompleted{})
			return
		}
		w.checkpoint()
	}
}

// drain empties a node: of a job whose replicas are asked to end, enough stay.
func (w *world) drain() {
	node := w.nodes[w.random.IntN(len(w.nodes))]
	before := w.state
	w.event(NodeDrained{node})
	for job, j := range w.state.Spec.Jobs {
		stay, asked := 0, 0
		for i, r := range w.state.Replicas {
			switch {
			case r.Job != job:
			case r.Leaving && !before.Replicas[i].Leaving:
				asked++
				if !r.Live || r.Node != node {
					w.fail("replica %d was asked to end: %+v", i, r)
				}
			case r.Done || r.Live && !r.Leaving:
				stay++
			}
		}
		if asked > 0 && (stay < j.Replicas.Min || j.Replicas.Min == j.Replicas.Max) {
			w.fail("job %s: %d were asked to end, and %d of at least %d stay", j.Name, asked, stay, j.Replicas.Min)
		}
	}
}

// checkpoint takes a cut of what runs.
func (w *world) checkpoint() {
	images := make(map[int]string)
	for _, o := range w.state.Orders() {
		if w.running[o.Node][o.Replica] == o.Attempt {
			images[o.Replica] = fmt.Sprintf("image %d.%d", o.Replica, o.Attempt)
		}
	}
	w.event(Checkpointed{images})
}

func (w *world) resume() {
	switch w.state.Phase {
	case Suspended:
		w.event(ResumeRequested{"ada"})
	case Waiting:
		w.event(DependenciesCompleted{})
	default:
	}
}

// send queues a report, sometimes twice.
func (w *world) send(e Event) {
	w.mail = append(w.mail, e)
	if w.random.IntN(4) == 0 {
		w.mail = append(w.mail, e)
	}
}

// deliver brings some reports, in any order.
func (w *world) deliver() {
	for range w.random.IntN(4) {
		if len(w.mail) == 0 {
			return
		}
		i := w.random.IntN(len(w.mail))
		e := w.mail[i]
		w.mail = slices.Delete(w.mail, i, i+1)
		w.event(e)
	}
}

// anySpec returns a launch of some shape.
func anySpec(r *rand.Rand) Spec {
	spec := Spec{Restartable: r.IntN(2) == 0}
	if r.IntN(4) == 0 {
		spec.After = []string{"earlier"}
	}
	if r.IntN(6) == 0 {
		spec.Queue = Refuse
	}
	for i := range 1 + r.IntN(2) {
		least := 1 + r.IntN(3)
		job := Job{
			Name: fmt.Sprintf("job-%d", i), Replicas: Replicas{least, least + r.IntN(3)*r.IntN(2)}, Retries: r.IntN(3),
			Processes: []Process{{Command: []string{"x"}}},
		}
		if r.IntN(3) == 0 {
			job.OnReplicaFailure = KeepOthers
		}
		if job.Retries > 0 && r.IntN(2) == 0 {
			job.RetryOn = []int{1}
		}
		spec.Jobs = append(spec.Jobs, job)
	}
	checked, err := spec.Check()
	if err != nil {
		panic(err)
	}
	return checked
}

// TestAnyOrder plays launches of all shapes under events in any order. Nothing runs twice, nothing
// is forgotten, gangs are whole, and once nothing fails every launch ends.
func TestAnyOrder(t *testing.T) {
	results := make(map[Result]int)
	for seed := range uint64(1_000) {
		spec := anySpec(rand.New(rand.NewPCG(seed, 2)))
		w := newWorld(t, seed, spec)
		for range 60 {
			w.step()
		}
		w.fair = true
		for steps := 0; w.state.Phase != Ended; steps++ {
			if w.step(); steps == 5_000 {
				w.fail("seed %d: it does not end: %+v", seed, w.state)
			}
		}
		results[w.state.Result]++
		w.checkReplay()
	}
	for _, each := range []Result{Completed, Failed, Stopped} {
		if results[each] < 20 {
			t.Errorf("only %d launches %s: the play is too tame", results[each], each)
		}
	}
}

// checkReplay applies the log again, with the state passing through its stored form at each event.
func (w *world) checkReplay() {
	again := New(w.state.Spec)
	for _, e := range w.log {
		text, err := json.Marshal(again)
		if err != nil {
			w.t.Fatal(err)
		}
		var stored State
		if err := json.Unmarshal(text, &stored); err != nil {
			w.t.Fatal(err)
		}
		if again, err = stored.Apply(e); err != nil {
			w.fail("replay: %v", err)
		}
	}
	got, _ := json.Marshal(again)
	want, _ := json.Marshal(w.state)
	if string(got) != string(want) {
		w.fail("replay: got %s, want %s", got, want)
	}
}

// TestDrained: replicas of a range end where a node is drained, and start elsewhere, while the
// others go on; but none does if the others would be too few.
func TestDrained(t *testing.T) {
	spec, err := Spec{Jobs: []Job{{
		Name: "main", Replicas: Replicas{2, 3}, Processes: []Process{{Command: []string{"x"}}},
	}}}.Check()
	if err != nil {
		t.Fatal(err)
	}
	s := New(spec)
	apply := func(e Event) error {
		t.Helper()
		next, err := s.Apply(e)
		s = next
		return err
	}
	must := func(e Event) {
		t.Helper()
		if err := apply(e); err != nil {
			t.Fatal(err)
		}
	}
	must(Placed{[]Assignment{{Replica: 0, Node: "a"}, {Replica: 1, Node: "b"}, {Replica: 2, Node: "b"}}})
	if err := apply(NodeDrained{"b"}); err == nil {
		t.Error("one of at least two goes on")
	}
	must(NodeDrained{"a"})
	if err := apply(NodeDrained{"b"}); err == nil {
		t.Error("after the first has left, another one may")
	}
	does := func() (all []Do) {
		for _, each := range s.Orders() {
			all = append(all, each.Do)
		}
		return all
	}
	if got := does(); !slices.Equal(got, []Do{Stop, Run, Run}) {
		t.Errorf("orders are %v", got)
	}
	generation := s.Generation
	must(ReplicaEnded{0, 1, []Exit{{Code: 143, Stopped: true}}})
	if got := does(); !slices.Equal(got, []Do{Run, Run}) || s.Phase != Running || s.Generation != generation+1 {
		t.Errorf("after its end: %v, %s, generation %d after %d", got, s.Phase, s.Generation, generation)
	}
	if need := s.Pending(); !slices.Equal(need.Single, []int{0}) {
		t.Errorf("%+v waits for a place", need)
	}
	must(Placed{[]Assignment{{Replica: 0, Node: "c"}}})
	if got := does(); !slices.Equal(got, []Do{Run, Run, Run}) || s.Replicas[0].Attempt != 2 || s.Replicas[0].Retries != 0 {
		t.Errorf("elsewhere: %v, %+v", got, s.Replicas[0])
	}
	must(NodeDrained{"c"})
	must(Preempted{"node b is drained"}) // while it leaves, the others are saved
	if got := does(); !slices.Equal(got, []Do{Stop, Save, Save}) {
		t.Errorf("orders are %v", got)
	}
	ended := s
	must(ReplicaEnded{0, 2, []Exit{{Code: 143, Stopped: true}}})
	must(Saved{map[int]string{1: "one", 2: "two"}})
	if s.Phase != Queued || s.Cut[1] != "one" || s.Replicas[0].Live {
		t.Errorf("it ended, then the others were saved: %s, %v", s.Phase, s.Cut)
	}
	s = ended
	must(Saved{map[int]string{1: "one", 2: "two"}})
	if got := does(); s.Phase != Stopping || !slices.Equal(got, []Do{Stop}) {
		t.Errorf("the others were saved first: %s, %v", s.Phase, got)
	}
	must(ReplicaEnded{0, 2, []Exit{{Code: 143, Stopped: true}}})
	if s.Phase != Queued || s.Cut[2] != "two" {
		t.Errorf("then it ended: %s, %v", s.Phase, s.Cut)
	}
	s = ended
	must(SaveFailed{"the disk is full"})
	must(ReplicaEnded{0, 2, []Exit{{}}}) // it had completed before it was asked
	if !s.Replicas[0].Done {
		t.Error("it starts again after it has completed")
	}
}
