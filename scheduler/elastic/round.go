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
	runs     bool // the job runs on the type now
}

// priority returns the ratio of due to received time. It is infinite if the job is due time and has
// received none.
func priority(share, due, had float64) float64 {
	switch {
	case share == 0:
		return 0
	case had == 0:
		return math.Inf(1)
	}
	return due / had
}

// round chooses which jobs run where: highest priority first, each job once, while there are GPUs.
// Among equal pairs, those that already run are first, then larger shares.
func round(pairs []pair, avail *supply) []pair {
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
		if !chosen[p.job] && avail.take(p.job, p.gpuType, p.job.GPUs()) {
			chosen[p.job] = true
			out = append(out, p)
		}
	}
	return out
}

// trueFirst compares booleans.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
