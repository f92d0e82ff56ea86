package victims

import (
	"iter"
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Cheapest preempts the jobs that waste the least GPU-time: saving, loading and lost work,
// multiplied by the GPUs that they hold. Of all sets that free enough GPUs it returns the cheapest:
// an inverted knapsack, solved exactly (R. Bellman, "Dynamic Programming", 1957). Among equal sets
// it takes the jobs that rank last.
type Cheapest struct {
	Costs scheduler.Costs

	// Depth is how many candidates are considered, from the last one on; 0 means 256.
	Depth int
}

// Choose returns the cheapest set.
func (c Cheapest) Choose(
	v scheduler.View,
	need scheduler.Demand,
	candidates iter.Seq[*scheduler.Job],
) []*scheduler.Job {
	depth, freed := c.Depth, 0
	if depth == 0 {
		depth = 256
	}
	var from []*scheduler.Job
	for j := range candidates {
		from = append(from, j)
		if freed += len(j.Placement()); len(from) >= depth && freed >= need.GPUs {
			break
		}
	}
	if freed <= need.GPUs {
		return from
	}
	// least[g] is the cost of freeing g GPUs or more by the candidates so far; takes[i][g] reports
	// whether candidate i is one of them.
	least := make([]float64, need.GPUs+1)
	for g := range least[1:] {
		least[g+1] = math.Inf(+1)
	}
	takes := make([][]bool, len(from))
	for i, j := range from {
		takes[i] = make([]bool, need.GPUs+1)
		price := loss(c.Costs, j, v.Now())
		for g := need.GPUs; g > 0; g-- {
			if with := least[max(0, g-len(j.Placement()))] + price; with < least[g] {
				least[g], takes[i][g] = with, true
			}
		}
	}
	var victims []*scheduler.Job
	for i, g := len(from)-1, need.GPUs; i >= 0 && g > 0; i-- {
		if takes[i][g] {
			victims = append(victims, from[i])
			g -= len(from[i].Placement())
		}
	}
	return victims
}

// loss returns the GPU-time, in seconds, that stopping a job now costs.
func loss(costs scheduler.Costs, j *scheduler.Job, now time.Duration) float64 {
	if costs == nil {
		return 0
	}
	took := costs.Save(j) + costs.Load(j, j.Placement()) + costs.Lost(j, now)
	return took.Seconds() * float64(len(j.Placement())*j.Share()) / cluster.WholeGPU
}
