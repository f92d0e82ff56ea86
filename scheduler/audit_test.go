package scheduler

import (
	"math"
	"path"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster"
)

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
}

func countGPUs(t testing.TB, e *Engine, j *Job, used map[cluster.GPU]int) {
	t.Helper()
	if j.inQueue != nil || (j.inSeries != nil) != (j.preemptible && (e.preempts || e.policies.Allocate != nil)) {
		t.Fatalf("running job %d: %+v", j.ID(), j)
	}
	if fewest, most := j.Bounds(); len(j.placement) != j.GPUs() && (len(j.placement) < fewest || len(j.placement) > most) {
		t.Fatalf("job %d has %d GPUs", j.ID(), len(j.placement))
	}
	for _, gpu := range j.placement {
		if e.free.closed[gpu.Node] {
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
		if last != nil && last.group == j.group && !last.inQueue.before(&j.inQueue.key) {
			t.Fatalf("job %d is before %d", last.ID(), j.ID())
		}
		last = j
	}
	due := 0
	for j := range e.Running() {
		due++
		if j.inDue.at != j.Due() {
			t.Fatalf("job %d is due at %v, not %v", j.ID(), j.Due(), j.inDue.at)
		}
	}
	if got := [3]int{e.waiting, e.running.size(), e.demand}; got != counts || queued != counts[0] || due != counts[1] {
		t.Fatalf("waiting, running and demand are %v (%d and %d in the trees), want %v", got, queued, due, counts)
	}
	for name, want := range users {
		if most, capped := e.policies.Caps[name]; capped && want.GPUs > float64(most)+1e-6 {
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

func recountFree(t testing.TB, e *Engine, used map[cluster.GPU]int) {
	t.Helper()
	whole, capacity := map[string]int{}, 0
	for _, node := range e.nodes {
		free := 0
		for i := range node.GPUs {
			gpu := cluster.GPU{Node: node.ID, Index: int32(i)}
			want := 1000 - used[gpu]
			if e.free.closed[node.ID] {
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
