package workload

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// unique returns an error if two jobs have the same number. Most files are sorted by it, which
// needs no memory to check.
func unique(l *lines, jobs *packed.Jobs, at []int32) error {
	rising := true
	for i := 1; i < jobs.Len() && rising; i++ {
		rising = jobs.ID(i-1) < jobs.ID(i)
	}
	if rising {
		return nil
	}
	order := make([]int32, jobs.Len())
	for i := range order {
		order[i] = int32(i)
	}
	id := func(i int32) cluster.JobID { return jobs.ID(int(i)) }
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(id(a), id(b)), cmp.Compare(a, b)) })
	for i := 1; i < len(order); i++ {
		if first, again := order[i-1], order[i]; id(first) == id(again) {
			return &Error{
				File: l.file, Line: int(at[again]), Column: "job_id", Value: fmt.Sprint(id(again)), Has: true,
				Want: fmt.Sprintf("a number of its own; line %d has the same", at[first]),
			}
		}
	}
	return nil
}
