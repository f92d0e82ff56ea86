package workload

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// Trace is a workload: jobs in the order in which they arrive, those of equal times by number.
type Trace struct {
	Jobs []cluster.Job

	// Nodes is the cluster that the trace comes from; empty where its files do not tell.
	Nodes []cluster.Node

	// Format is the name of the form that was read, or of the generator.
	Format string

	// Notes say what a reader has left out or had to assume, one sentence each.
	Notes []string
}

// GPUTime is what the jobs need together, were none ever to wait.
func (t Trace) GPUTime() time.Duration {
	var sum time.Duration
	for i := range t.Jobs {
		j := &t.Jobs[i]
		sum += j.Length * time.Duration(j.GPUs) / cluster.WholeGPU * time.Duration(j.Share)
	}
	return sum
}

// sort brings jobs into the order of arrival.
func (t *Trace) sort() {
	slices.SortStableFunc(t.Jobs, func(a, b cluster.Job) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
}

// number gives jobs that only have names their numbers, in the order of arrival, so that the order
// of lines decides nothing.
func (t *Trace) number() {
	slices.SortStableFunc(t.Jobs, func(a, b cluster.Job) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.Name, b.Name), cmp.Compare(a.GPUs, b.GPUs),
			cmp.Compare(a.Length, b.Length), cmp.Compare(a.User, b.User), cmp.Compare(a.Model, b.Model))
	})
	for i := range t.Jobs {
		t.Jobs[i].ID = cluster.JobID(i)
	}
}

// fromZero makes times count from the first submission.
func (t *Trace) fromZero() {
	if len(t.Jobs) == 0 {
		return
	}
	first := t.Jobs[0].Submit
	for i := range t.Jobs {
		first = min(first, t.Jobs[i].Submit)
	}
	for i := range t.Jobs {
		t.Jobs[i].Submit -= first
	}
}

// omissions counts what is left out, by reason.
type omissions map[string]int

// notes are the reasons with their numbers, the most frequent first.
func (o omissions) notes() []string {
	var reasons []string
	for reason := range o {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(cmp.Compare(o[b], o[a]), cmp.Compare(a, b)) })
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", o[reason], reason)
	}
	return reasons
}
