package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// Trace is a workload: jobs by arrival, then by number.
type Trace struct {
	Jobs *packed.Jobs

	// Nodes is the cluster of the trace; empty if unknown.
	Nodes []cluster.Node

	// Format is the name of the format that was read, or of the generator.
	Format string

	// Notes say what was left out or assumed, one sentence each.
	Notes []string
}

// newTrace returns a trace without jobs.
func newTrace() Trace { return Trace{Jobs: &packed.Jobs{}} }

// GPUTime returns the sum of the jobs' GPU-time.
func (t Trace) GPUTime() time.Duration {
	var sum time.Duration
	for _, j := range t.Jobs.All() {
		sum += j.Length * time.Duration(j.GPUs) / cluster.WholeGPU * time.Duration(j.Share)
	}
	return sum
}

// sort sorts jobs by arrival.
func (t *Trace) sort() {
	t.Jobs.Sort(func(a, b *cluster.Job) int { return cmp.Compare(a.ID, b.ID) })
}

// number numbers jobs that only have names, by arrival, so that the order of lines does not matter.
func (t *Trace) number() {
	t.Jobs.Sort(func(a, b *cluster.Job) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.GPUs, b.GPUs),
			cmp.Compare(a.Length, b.Length), cmp.Compare(a.User, b.User), cmp.Compare(a.Model, b.Model))
	})
	t.Jobs = t.Jobs.Map(func(i int, j *cluster.Job) { j.ID = cluster.JobID(i) })
}

// fromZero shifts times to count from the first submission.
func (t *Trace) fromZero() {
	if t.Jobs.Len() == 0 {
		return
	}
	first := t.Jobs.Submit(0)
	for i := range t.Jobs.Len() {
		first = min(first, t.Jobs.Submit(i))
	}
	t.Jobs = t.Jobs.Map(func(_ int, j *cluster.Job) { j.Submit -= first })
}

// omissions counts the jobs that are left out, by reason.
type omissions map[string]int

// notes returns the reasons with their counts, most frequent first.
func (o omissions) notes() []string {
	reasons := o.sorted()
	for i, reason := range reasons {
		noun, rest, _ := strings.Cut(reason, " ") // "jobs" or "lines"
		if o[reason] == 1 {
			noun = strings.TrimSuffix(noun, "s")
		}
		reasons[i] = fmt.Sprintf("%d %s %s", o[reason], noun, rest)
	}
	return reasons
}

// notesOf returns the reasons with their counts out of all jobs, most frequent first.
func (o omissions) notesOf(all int) []string {
	reasons := o.sorted()
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d of %d jobs: %s", o[reason], all, reason)
	}
	return reasons
}

// sorted returns the reasons, most frequent first.
func (o omissions) sorted() (reasons []string) {
	for reason := range o {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(cmp.Compare(o[b], o[a]), cmp.Compare(a, b)) })
	return reasons
}
