package sim_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// TestFigures has three jobs on two GPUs, computed by hand. Job 0 has both GPUs until job 2, which
// is shorter, preempts it at 4 s; job 1 fits beside job 2. Job 0 resumes when both have ended.
//
//	job  user  submit  length  GPUs  runs             JCT   wait
//	0    a     0       10      2     0-4 and 13-19    19    9
//	1    b     2.5     9       1     4-13             10.5  1.5
//	2    a     4       5.5     1     4-9.5            5.5   0
//
// The number of jobs in the system is 1 until 2.5, 2 until 4, 3 until 9.5, 2 until 13, 1 until 19.
// So N is 35/19 for job 0, 26.5/10.5 for job 1, and 3 for job 2.
func TestFigures(t *testing.T) {
	const ms = time.Millisecond
	job := func(id cluster.JobID, user string, submit, length time.Duration, gpus int) cluster.Job {
		return cluster.Job{
			ID: id, User: user, Priority: int(id) % 2, Submit: submit, Length: length, Estimate: length, GPUs: gpus,
		}
	}
	jobs := []cluster.Job{
		job(0, "a", 0, 10*s, 2), job(1, "b", 2500*ms, 9*s, 1), job(2, "a", 4*s, 5500*ms, 1),
	}
	got, err := sim.Play(context.Background(), packed.Of(jobs...), sim.Options{
		Nodes:    oneNode(2),
		Policies: scheduler.Policies{Order: order.SRTF{}, Place: counting{}, Preempt: victims.Tail{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := got.Summary.Figures
	rho := []float64{19 * 19.0 / 350, 10.5 * 10.5 * 2 / (9 * 26.5), 2 / 3.0}
	xa, xb := 25.5/43.5, 9/10.5
	for _, each := range []struct {
		name      string
		got, want float64
	}{
		{"mean JCT", f.JCT.Mean, 35 / 3.0},
		{"median JCT", f.JCT.Median, 10.5},
		{"p95 JCT", f.JCT.P95, 10.5 + 8.5*0.9},
		{"p99 JCT", f.JCT.P99, 10.5 + 8.5*0.98},
		{"max JCT", f.JCT.Max, 19},
		{"mean wait", f.Wait.Mean, 3.5},
		{"max wait", f.Wait.Max, 9},
		{"mean slowdown", f.Slowdown.Mean, (1.9 + 10.5/9 + 1) / 3},
		{"mean bounded slowdown", f.BoundedSlowdown.Mean, (1.9 + 1.05 + 1) / 3},
		{"mean rho", f.FinishTimeFairness.Mean, (rho[0] + rho[1] + rho[2]) / 3},
		{"max rho", f.FinishTimeFairness.Max, rho[0]},
		{"fairness", f.FairnessIndex, (xa + xb) * (xa + xb) / (2 * (xa*xa + xb*xb))},
		{"requested", f.RequestedGPUHours, 34.5 / 3600},
		{"held", f.GPUHours, 34.5 / 3600},
		{"JCT of a", f.ByUser[0].AvgJCT, 12.25},
		{"wait of a", f.ByUser[0].AvgWait, 4.5},
		{"bounded slowdown of a", f.ByUser[0].BoundedSlowdown, 1.45},
		{"JCT of priority 1", f.ByPriority[0].AvgJCT, 10.5},
		{"GPU-hours of small-short", f.ByClass[0].GPUHours, 34.5 / 3600},
	} {
		if math.Abs(each.got-each.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", each.name, each.got, each.want)
		}
	}
	if f.Users != 2 || len(f.ByClass) != 1 || len(f.ByPriority) != 2 || f.ByUser[0].Preemptions != 1 {
		t.Errorf("got %+v", f)
	}
	for i, want := range []struct {
		runs      int32
		placement string
	}{{2, "0:0-1"}, {1, "0:1"}, {1, "0:0"}} {
		j := got.Jobs.At(i)
		if len(j.Placement.String()) != len(want.placement) || j.Runs != want.runs || j.Migrations+j.Resizes+j.Restarts > 0 {
			t.Errorf("job %d: got %d runs, last on %s", i, j.Runs, j.Placement)
		}
	}
}

// TestLostJobsHaveNoSlowdown: a job that fails for good has a JCT and a wait, and no slowdown.
func TestLostJobsHaveNoSlowdown(t *testing.T) {
	got, err := sim.Play(context.Background(), packed.Of(cluster.Job{ID: 1, Length: 1000 * s, Estimate: s, GPUs: 1}), sim.Options{
		Nodes:    oneNode(1),
		Policies: scheduler.Policies{Order: order.FIFO{}, Place: counting{}, Retries: 2},
		Faults:   sim.Faults{Seed: 1, JobMTBF: s},
	})
	if err != nil {
		t.Fatal(err)
	}
	j := got.Jobs.At(0)
	if _, ok := j.Slowdown(); ok || j.Outcome != sim.Lost || j.Runs != 3 || j.Restarts != 2 || j.Wait() != 0 ||
		j.Ran != j.JCT() {
		t.Errorf("got %+v", j)
	}
	if f := got.Summary.Figures; f.JCT.Max == 0 || f.BoundedSlowdown.Max != 0 {
		t.Errorf("got %+v", f)
	}
}
