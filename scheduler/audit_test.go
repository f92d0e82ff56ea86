package scheduler

import (
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// witness observes which jobs have GPUs that no plan has given them, by their runs: only such jobs
// may be on closed nodes, exceed a cap, or have too few GPUs.
type witness map[cluster.JobID]int

func (w witness) Continues(j *Job, _ time.Duration) { w[j.ID()] = j.run }
func (witness) Handled(int, error)                  {}
func (witness) Admitted(*Job)                       {}
func (witness) Preempts(*Job, *Job)                 {}
func (witness) Overtakes(*Job)                      {}
func (witness) Promised(*Job, time.Duration)        {}
func (w witness) odd(j *Job) bool {
	run, ok := w[j.ID()]
	return ok && run == j.run && j.phase == Running
}
func witnessOf(e *Engine) (w witness) { w, _ = e.observer.(witness); return w }

// audit computes an engine's whole state from its jobs and compares it with what the engine keeps.
func audit(t testing.TB, e *Engine) {
	t.Helper()
	used := map[cluster.GPU]int{}
	users := map[string]Usage{}
	waiting, running, demand := 0, 0, 0
	for id, j := range e.jobs {
		if j.ID() != id {
			t.Fatalf("job %d is stored as %d", j.ID(), id)
		}
		switch j.phase {
		case Waiting:
			waiting++
			if j.inQueue == nil || j.inDue != nil || j.inSeries != nil || j.placement != nil {
				t.Fatalf("waiting job %d: %+v", id, j)
			}
		case Running:
			running++
			countGPUs(t, e, j, used)
		case Held:
		case Ended:
			t.Fatalf("job %d has ended", id)
		}
		if j.phase == Waiting || j.phase == Running {
			demand += j.GPUs()
			for name := j.User(); ; name = path.Dir(name) {
				u := users[name]
				u.Demand += j.GPUs()
				u.GPUs += float64(len(j.placement)*j.Share()) / 1000
				u.MemoryBytes += int64(len(j.placement)) * j.GPUMemoryBytes()
				if j.phase == Running {
					u.Running++
				} else {
					u.Waiting++
				}
				users[name] = u
				if !strings.Contains(name, "/") {
					break
				}
			}
		}
	}
	compare(t, e, [3]int{waiting, running, demand}, users)
	recountFree(t, e, used)
	recountRunsAndSeries(t, e)
}

// recountRunsAndSeries compares what searches use with the jobs: the expected releases, and the
// GPUs that are held by the jobs of each series.
func recountRunsAndSeries(t testing.TB, e *Engine) {
	t.Helper()
	for _, g := range e.groups {
		for _, s := range g.series {
			s.jobs.Each(func(j *Job) bool {
				if j.inSeries.Own.Held != len(j.placement) || j.series != s || s.growth != j.rank.Growth {
					t.Fatalf("job %d has %d GPUs, its series has %+v", j.ID(), len(j.placement), j.inSeries.Own)
				}
				return true
			})
		}
	}
	if e.policies.Backfill == nil {
		return
	}
	expected := &e.free.expected
	if len(expected.runs) != e.running.size() {
		t.Fatalf("%d runs are expected to end, and %d jobs run", len(expected.runs), e.running.size())
	}
	for id, b := range expected.runs {
		j := e.jobs[id]
		if j == nil || !slices.Equal(b.on, j.placement) || b.share != j.Share() {
			t.Fatalf("run %+v is expected to end, job %+v", b, j)
		}
	}
	lists := expected.lists
	for _, l := range lists {
		expected.lists = nil
		if got, want := l.all(), e.free.releasesFor(l.request).all(); !slices.Equal(got, want) {
			t.Fatalf("the releases for %+v are %v, want %v", l.request, got, want)
		}
	}
	expected.lists = lists
}

func (l *releaseList) all() (all []release) {
	for _, b := range l.blocks {
		all = append(all, b.all...)
	}
	return all
}

func countGPUs(t testing.TB, e *Engine, j *Job, used map[cluster.GPU]int) {
	t.Helper()
	if j.inQueue != nil || (j.inSeries != nil) != (j.preemptible && (e.preempts || e.policies.Allocate != nil)) {
		t.Fatalf("running job %d: %+v", j.ID(), j)
	}
	odd := witnessOf(e).odd(j)
	n := len(j.placement)
	if fewest, most := j.Bounds(); n != j.GPUs() && (n < fewest || n > most) && (!odd || n > max(most, j.GPUs())) {
		t.Fatalf("job %d has %d GPUs", j.ID(), len(j.placement))
	}
	if len(j.placement) == 0 || !slices.IsSortedFunc(j.placement, byNumber) {
		t.Fatalf("job %d has GPUs %v", j.ID(), j.placement)
	}
	for _, gpu := range j.placement {
		if e.free.closed[gpu.Node] && !odd && e.free.states[gpu.Node] != NodeCordoned {
			t.Fatalf("job %d runs on closed node %d", j.ID(), gpu.Node)
		}
		if used[gpu] += j.Share(); used[gpu] > 1000 {
			t.Fatalf("GPU %v is allocated %d thousandths", gpu, used[gpu])
		}
	}
}

func compare(t testing.TB, e *Engine, counts [3]int, users map[string]Usage) {
	t.Helper()
	queued, last := 0, (*Job)(nil)
	for j := range e.Waiting() {
		queued++
		if last != nil && last.group == j.group && !last.inQueue.Before(&j.inQueue.Key) {
			t.Fatalf("job %d is before %d", last.ID(), j.ID())
		}
		last = j
	}
	due := 0
	for j := range e.Running() {
		due++
		if j.inDue.At != j.Due() {
			t.Fatalf("job %d is due at %v, not %v", j.ID(), j.Due(), j.inDue.At)
		}
	}
	if got := [3]int{e.waiting, e.running.size(), e.demand}; got != counts || queued != counts[0] || due != counts[1] {
		t.Fatalf("waiting, running and demand are %v (%d and %d in the trees), want %v", got, queued, due, counts)
	}
	for name, want := range users {
		if most, capped := e.policies.Caps[name]; capped && want.GPUs > float64(most)+1e-6 && !anyOdd(e, name) {
			t.Fatalf("user %q has %v GPUs of at most %d", name, want.GPUs, most)
		}
		want.Cap = Uncapped
		if most, capped := e.policies.Caps[name]; capped {
			want.Cap = most
		}
		got := e.User(name)
		if math.Abs(got.GPUs-want.GPUs) < 1e-6 {
			want.GPUs, want.Service = got.GPUs, got.Service
		}
		if got != want {
			t.Fatalf("user %q has %+v, want %+v", name, got, want)
		}
	}
}

// anyOdd reports whether a user, or one below, has a job with GPUs that no plan has given it.
func anyOdd(e *Engine, user string) bool {
	for j := range e.Running() {
		if witnessOf(e).odd(j) && (j.User() == user || strings.HasPrefix(j.User(), user+"/")) {
			return true
		}
	}
	return false
}

func recountFree(t testing.TB, e *Engine, used map[cluster.GPU]int) {
	t.Helper()
	whole, capacity := map[string]int{}, 0
	for _, node := range e.nodes {
		free := 0
		for i := range node.GPUs {
			gpu := cluster.GPU{Node: node.ID, Index: int32(i)}
			want := 1000 - used[gpu]
			if got := e.free.left(gpu); got != want {
				t.Fatalf("%d thousandths of GPU %v are left, want %d", got, gpu, want)
			}
			if e.free.closed[node.ID] || e.free.Occupied(node.ID)&(1<<i) != 0 {
				want = 0
			}
			if got := e.free.Share(gpu); got != want {
				t.Fatalf("%d thousandths of GPU %v are free, want %d", got, gpu, want)
			}
			if want == 1000 {
				free++
			}
		}
		if !e.free.closed[node.ID] {
			capacity += node.GPUs
		}
		if e.free.closed[node.ID] != (e.free.states[node.ID] != NodeOpen) || e.free.Occupied(node.ID)&^allGPUs(&node) != 0 {
			t.Fatalf("node %d is %v, occupied %b", node.ID, e.free.states[node.ID], e.free.Occupied(node.ID))
		}
		whole[""] += free
		if node.GPUType != "" {
			whole[node.GPUType] += free
		}
		if e.free.On(node.ID) != free {
			t.Fatalf("node %d has %d free GPUs, want %d", node.ID, e.free.On(node.ID), free)
		}
	}
	for gpuType, want := range whole {
		if got := e.free.Whole(gpuType); got != want {
			t.Fatalf("%d GPUs of type %q are free, want %d", got, gpuType, want)
		}
	}
	if got := e.Capacity().GPUs; got != float64(capacity) {
		t.Fatalf("the capacity is %v GPUs, want %d", got, capacity)
	}
}
