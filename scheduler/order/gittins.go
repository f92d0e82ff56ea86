package order

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Gittins serves the job that is most likely to end soon for the service it takes, given the
// distribution of lengths. The index of a job that has had service a is the maximum, over all
// further service d, of P(length <= a+d) / E(min(length-a, d)), given that length > a. J. Gittins,
// "Bandit Processes and Dynamic Allocation Indices", Journal of the Royal Statistical Society B
// 41(2), 1979; for GPUs in two dimensions: Tiresias, NSDI 2019, section 4.3. No order that knows
// only the distribution has a lower mean completion time on one machine. Jobs that outlast every
// known length come last, least attained service first.
//
// The rank is the inverse of the index: linear in a between known lengths, until another d becomes
// the maximum. The paper computes ranks at queue limits only.
type Gittins struct {
	lengths []float64 // ascending, in seconds
	twoD    bool
}

// maxQuantiles is how many quantiles represent the lengths.
const maxQuantiles = 64

// NewGittins returns a Gittins for observed lengths, or for typical ones if there are none. In two
// dimensions lengths are GPU-time.
func NewGittins(lengths []time.Duration, twoD bool) Gittins {
	g := Gittins{twoD: twoD}
	for _, length := range lengths {
		g.lengths = append(g.lengths, length.Seconds())
	}
	if len(lengths) == 0 {
		g.lengths = typicalLengths()
	}
	slices.Sort(g.lengths)
	if n := len(g.lengths); n > maxQuantiles {
		all := g.lengths
		g.lengths = nil
		for i := range maxQuantiles {
			g.lengths = append(g.lengths, all[(2*i+1)*n/(2*maxQuantiles)])
		}
	}
	return g
}

// Rank returns the inverse of the index.
func (g Gittins) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	had, rate := j.Attained(v.Now()).Seconds(), 1.0
	if g.twoD {
		had, rate = j.Service(v.Now()).Seconds(), width(j)
	}
	value, slope, holds := g.inverse(had)
	if holds == 0 {
		return scheduler.Rank{Tier: 1, Value: had, Growth: rate}
	}
	rank := scheduler.Rank{Value: value, Growth: slope * rate}
	if j.Phase() == scheduler.Running {
		rank.Until = max(v.Now(), j.WorksFrom()) + max(1, time.Duration(math.Ceil(holds/rate*1e9)))
	}
	return rank
}

// Preempts returns true.
func (Gittins) Preempts() bool { return true }

// inverse returns the inverse of the index after so much service, its slope in further service, and
// for how much service that slope holds; holds is 0 if no known length is greater.
func (g Gittins) inverse(had float64) (value, slope, holds float64) {
	longer := g.lengths[sort.Search(len(g.lengths), func(i int) bool { return g.lengths[i] > had }):]
	n := float64(len(longer))
	value = math.Inf(+1)
	spent := 0.0 // total service of the lengths so far
	for i, length := range longer {
		spent += length - had
		ended := float64(i + 1)
		if one := (spent + (n-ended)*(length-had)) / ended; one < value*(1-1e-12) {
			value, slope = one, -n/ended
		}
	}
	if n == 0 {
		return 0, 0, 0
	}
	holds, spent = longer[0]-had, 0
	for i, length := range longer {
		spent += length - had
		ended := float64(i + 1)
		if steeper := -n / ended; steeper < slope {
			one := (spent + (n-ended)*(length-had)) / ended
			holds = min(holds, max((one-value)/(slope-steeper), 1e-9))
		}
	}
	return value, slope, holds
}

// typicalLengths are lengths as in Microsoft's Philly cluster, by the law of Blox (S. Agarwal et
// al., EuroSys 2024): four in five jobs take between 10^1.5 and 10^3 minutes, one in five up to
// 10^4, uniform in the logarithm.
func typicalLengths() []float64 {
	lengths := make([]float64, 50)
	for i := range lengths {
		if at := (float64(i) + 0.5) / float64(len(lengths)); at < 0.8 {
			lengths[i] = 60 * math.Pow(10, 1.5+1.5*at/0.8)
		} else {
			lengths[i] = 60 * math.Pow(10, 3+(at-0.8)/0.2)
		}
	}
	return lengths
}
