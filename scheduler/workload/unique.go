package workload

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// unique returns an error if two jobs have the same number. Most files are sorted by it, which
// needs no memory to check.
func unique(l *lines, jobs []cluster.Job, at []int32) error {
	rising := true
	for i := 1; i < len(jobs) && rising; i++ {
		rising = jobs[i-1].ID < jobs[i].ID
	}
	if rising {
		return nil
	}
	order := make([]int32, len(jobs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(jobs[a].ID, jobs[b].ID), cmp.Compare(a, b)) })
	for i := 1; i < len(order); i++ {
		if first, again := order[i-1], order[i]; jobs[first].ID == jobs[again].ID {
			return &Error{
				File: l.file, Line: int(at[again]), Column: "job_id", Value: fmt.Sprint(jobs[again].ID), Has: true,
				Want: fmt.Sprintf("a number of its own; line %d has the same", at[first]),
			}
		}
	}
	return nil
}
