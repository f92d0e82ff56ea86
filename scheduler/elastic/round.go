package elastic

import (
	"cmp"
	"math"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
)

// pair is a job on a type of GPU.
type pair struct {
	job      *scheduler.Job
	gpuType  string
	priority float64
	share    float64
	runs     bool // it has it now
}

// priority is how much a pair was to have of the rounds so far against what it has received:
// without end where it is to have something and has received nothing.
func priority(share, due, had float64) float64 {
	switch {
	case share == 0:
		return 0
	case had == 0:
		return math.Inf(1)
	}
	return due / had
}

// round chooses who runs where: the pair of the highest priority first, each job once, as long as
// there are GPUs. Of equal ones, who runs there already goes on; then the larger share goes first.
func round(pairs []pair, room *supply) []pair {
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Or(
			cmp.Compare(b.priority, a.priority),
			trueFirst(a.runs, b.runs),
			cmp.Compare(b.share, a.share),
			cmp.Compare(a.job.ID(), b.job.ID()),
		)
	})
	var out []pair
	chosen := map[*scheduler.Job]bool{}
	for _, p := range pairs {
		if !chosen[p.job] && room.take(p.job, p.gpuType, p.job.GPUs()) {
			chosen[p.job] = true
			out = append(out, p)
		}
	}
	return out
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
