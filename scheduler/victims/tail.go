package victims

import (
	"iter"

	"github.com/phos-gpu/phos/scheduler"
)

// Tail preempts the jobs that rank last, until enough GPUs are free. No job is preempted while a
// job that ranks behind it keeps usable GPUs. Blox, Tiresias and most others do this.
type Tail struct{}

// Choose returns the last candidates.
func (Tail) Choose(_ scheduler.View, need scheduler.Demand, candidates iter.Seq[*scheduler.Job]) []*scheduler.Job {
	victims, freed := make([]*scheduler.Job, 0, 4), 0
	for j := range candidates {
		victims = append(victims, j)
		if freed += len(j.Placement()); freed >= need.GPUs {
			break
		}
	}
	return victims
}

// LastFirst says that no other candidates are taken.
func (Tail) LastFirst() {}
