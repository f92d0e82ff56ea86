package elastic

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// TestSharedOutWithinCaps: GPUs beyond a cap go to other users: at most 2 GPUs to the jobs of o,
// one of them to o/a, the others to b.
func TestSharedOutWithinCaps(t *testing.T) {
	var jobs []schedulertest.Job
	for id := range cluster.JobID(14) {
		user := []string{"o/a", "o/a", "o/a", "o/c", "o/c", "o/c"}[id%6]
		if id >= 6 {
			user = "b"
		}
		jobs = append(jobs, schedulertest.Job{Phase: scheduler.Waiting, Job: cluster.Job{
			ID: id, GPUs: 1, MinGPUs: 1, MaxGPUs: 4, User: user, Model: "resnet50", Length: time.Hour,
			Estimate: time.Duration(1+id) * time.Hour,
		}})
	}
	for _, name := range Names() {
		v := schedulertest.NewView(0, machines(2, 4, "V100"), jobs...)
		v.Limit("o", 2)
		v.Limit("o/a", 1)
		policy, _, err := ByName(name, Parameters{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		given := map[string]int{}
		for _, a := range policy.Allocate(v) {
			for user := range withAncestors(a.Job.User()) {
				given[user] += a.GPUs
			}
		}
		if given["o"] > 2 || given["o/a"] > 1 || given["o"]+given["b"] != 8 {
			t.Errorf("%s gave %v", name, given)
		}
	}
}

// TestTargetWithinCaps has four jobs whose bound is one GPU on average together, and four others,
// on four GPUs. Then a job of 2 GPUs is added whose user may hold 0.4 on average: it has less than
// its fair share, and the rest of the shared bound goes to the other jobs under it.
func TestTargetWithinCaps(t *testing.T) {
	near := func(t *testing.T, what string, got, want float64) {
		if t.Helper(); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	groups := []group{{4, 1, []float64{1}, 0}, {4, 1, []float64{1}, 0}}
	x := maxmin(groups, []float64{4}, bound{1, []float64{1, 0}})
	near(t, "under the bound", x[0][0], 0.25)
	near(t, "the others", x[1][0], 0.75)
	groups = append(groups, group{1, 2, []float64{1}, 0})
	x = maxmin(groups, []float64{100}, bound{3, []float64{1, 0, 2}}, bound{0.4, []float64{0, 0, 2}})
	near(t, "under one bound", x[0][0], 0.65)
	near(t, "under two", x[2][0], 0.2)
	near(t, "under none", x[1][0], 1)
}

// TestTurnsWithinCaps: two jobs of a user with a cap of one GPU alternate without losing time: the
// starting job is not refused because of the stopping one.
func TestTurnsWithinCaps(t *testing.T) {
	var jobs []cluster.Job
	for id := range cluster.JobID(2) {
		jobs = append(
			jobs,
			cluster.Job{
				ID:       id,
				GPUs:     1,
				User:     "a",
				Model:    "resnet50",
				Length:   10 * time.Minute,
				Estimate: 10 * time.Minute,
			},
		)
	}
	p := policies(t, "gavel", 0)
	p.Caps = map[string]int{"a": 1}
	r := (&run{t: t, nodes: machines(1, 2, ""), jobs: slices.Clone(jobs)}).play(p)
	if end := max(r.ends[0], r.ends[1]); end != 20*time.Minute || r.stops < 5 {
		t.Errorf("the last one ended after %v and %d stops", end, r.stops)
	}
}
