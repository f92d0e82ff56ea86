package admit

import (
	"errors"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// inside admits held jobs in order of arrival, as the engine does, and returns which ones were
// admitted.
func inside(policy scheduler.Admitter, gpus int, already []int, asks ...cluster.Job) (in []int) {
	var jobs []schedulertest.Job
	for i, n := range already {
		jobs = append(
			jobs,
			schedulertest.Job{Job: cluster.Job{ID: cluster.JobID(1000 + i), GPUs: n}, Phase: scheduler.Waiting},
		)
	}
	for i, ask := range asks {
		ask.ID = cluster.JobID(i)
		jobs = append(jobs, schedulertest.Job{Job: ask, Phase: scheduler.Held})
	}
	shut := map[string]bool{}
	for i := len(already); i < len(jobs); i++ {
		v := schedulertest.NewView(0, []cluster.Node{{GPUs: gpus}}, jobs...)
		j, tenant := v.Job(jobs[i].ID), ""
		if queuer, ok := policy.(scheduler.TenantAdmitter); ok {
			tenant = queuer.Tenant(j)
		}
		if shut[tenant] || !policy.Admit(v, j) {
			shut[tenant] = true
			continue
		}
		jobs[i].Phase = scheduler.Waiting
		in = append(in, int(j.ID()))
	}
	return in
}

func TestAdmission(t *testing.T) {
	ask := func(user string, gpus int) cluster.Job { return cluster.Job{User: user, GPUs: gpus} }
	for _, c := range []struct {
		name    string
		already []int
		asks    []cluster.Job
		want    []int
	}{
		{"all", []int{100}, []cluster.Job{ask("", 50), ask("", 1)}, []int{0, 1}},
		// The limit is 12: the job that exceeds it is admitted, the next one is not, however small.
		{"load:1.2", []int{8}, []cluster.Job{ask("", 4), ask("", 7), ask("", 1)}, []int{0, 1}},
		{"load:1.2", []int{12}, []cluster.Job{ask("", 1), ask("", 1)}, []int{0}},
		{"load:1.2", []int{13}, []cluster.Job{ask("", 1)}, nil},
		// Half of ten GPUs for each: b's jobs do not wait for a's, and within a no job overtakes.
		{"quota:0.5", nil, []cluster.Job{ask("a", 3), ask("a", 3), ask("b", 5), ask("a", 1), ask("b", 1)}, []int{0, 2}},
		{"quota:0.5", nil, []cluster.Job{ask("a", 8), ask("a", 1), ask("b", 8)}, []int{0, 2}},
		{"quota:0.5", []int{4}, []cluster.Job{ask("", 1), ask("", 1)}, []int{0}},
	} {
		policy, err := ByName(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := inside(policy, 10, c.already, c.asks...); !slices.Equal(got, c.want) {
			t.Errorf("%s with %v admitted: admits %v of %v, want %v", c.name, c.already, got, c.asks, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]error{
		"any": ErrUnknown, "": ErrUnknown, "all:1": ErrUnknown, "load": ErrParameter, "load:": ErrParameter,
		"load:0":  ErrParameter,
		"load:-1": ErrParameter, "load:NaN": ErrParameter, "quota:Inf": ErrParameter, "quota:x": ErrParameter,
		"quota:1e-3": nil,
	} {
		if _, err := ByName(name); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}
