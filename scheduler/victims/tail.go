package victims

import (
	"iter"

	"github.com/phos-gpu/phos/scheduler"
)

// Tail stops whoever ranks last, until there is enough. Nobody is stopped for a job while somebody
// who ranks behind him goes on without being in the way: what Blox, Tiresias and most others do.
type Tail struct{}

// Choose names the last ones.
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
