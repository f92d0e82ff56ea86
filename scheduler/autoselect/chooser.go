package autoselect

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Chooser is the order and the admission policy of the current candidate: the first one, until
// another proves better. One Chooser serves one engine.
//
// Preemptive and other orders can be mixed: while one that does not preempt is current, running
// jobs rank before all waiting ones. The walk through the queue belongs to the engine and is the
// same for all candidates: unless Base chooses, it is Fill as soon as one candidate preempts.
type Chooser struct {
	base       func() scheduler.Policies
	walk       scheduler.Walk
	candidates []Candidate
	options    Options
	preempts   bool  // a candidate preempts
	uniform    bool  // all GPUs are equally fast, so withUnfinished is a lower bound
	order      []int // in which candidates are compared
	steps      []int // steps of each candidate's last simulation

	current int
	next    time.Duration // of the next comparison
	started bool
	choices []Choice
}

// Choice is a comparison and its result.
type Choice struct {
	At     time.Duration
	Jobs   int       // jobs that were simulated
	Means  []float64 // seconds, by candidate; a lower bound for candidates that could not win
	Chosen int       // index of the candidate
}

// New returns a Chooser. base returns the other policies; its Order and Admit are ignored. New
// calls it, and the Chooser calls it for the engine and for each candidate and comparison, because
// some policies keep state about one engine.
func New(base func() scheduler.Policies, candidates []Candidate, o Options) (*Chooser, error) {
	p := base()
	if err := checkCandidates(p, candidates); err != nil {
		return nil, err
	}
	if o.Every == 0 {
		o.Every = time.Hour
	}
	if o.Steps == 0 {
		o.Steps = 20_000
	}
	c := &Chooser{
		base:       base,
		walk:       p.Walk,
		candidates: candidates,
		options:    o,
		uniform:    p.Speeds == nil,
		steps:      make([]int, len(candidates)),
	}
	for i := range candidates {
		c.order = append(c.order, i)
		c.preempts = c.preempts || candidates[i].preempts()
	}
	if c.walk == scheduler.ByOrder {
		c.walk = scheduler.Strict
		if c.preempts {
			c.walk = scheduler.Fill
		}
	}
	return c, nil
}

// Policies returns base's policies with the Chooser as order and admission policy.
func (c *Chooser) Policies() scheduler.Policies { return c.with(c, c) }

// with returns base's policies with the given order and admission policy.
func (c *Chooser) with(o scheduler.Orderer, a scheduler.Admitter) scheduler.Policies {
	p := c.base()
	p.Order, p.Admit, p.Walk = o, a, c.walk
	return p
}

// Choices returns the comparisons so far.
func (c *Chooser) Choices() []Choice { return c.choices }

// Current returns the name of the current candidate.
func (c *Chooser) Current() string { return c.candidates[c.current].Name }

// Preempts reports whether a candidate preempts.
func (c *Chooser) Preempts() bool { return c.preempts }

// runningTier is the tier of running jobs under an order that does not preempt.
const runningTier = -1 << 62

// Rank returns the current candidate's rank, which holds until the next comparison.
func (c *Chooser) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	c.maybeCompare(v)
	now := &c.candidates[c.current]
	r := now.Order.Rank(v, j)
	if len(c.candidates) == 1 {
		return r
	}
	if c.preempts && !now.preempts() && j.Phase() == scheduler.Running {
		r = scheduler.Rank{Tier: runningTier, Until: r.Until}
	}
	if r.Until == 0 || r.Until > c.next {
		r.Until = c.next
	}
	return r
}

// Admit returns the current candidate's answer.
func (c *Chooser) Admit(v scheduler.View, first *scheduler.Job) bool {
	c.maybeCompare(v)
	a := c.candidates[c.current].Admit
	return a == nil || a.Admit(v, first)
}

// Words returns the words of the current candidate's order.
func (c *Chooser) Words(v scheduler.View, j *scheduler.Job) string {
	if o, ok := c.candidates[c.current].Order.(interface {
		Words(v scheduler.View, j *scheduler.Job) string
	}); ok {
		return o.Words(v, j)
	}
	return ""
}

// maybeCompare compares the candidates when it is time to.
func (c *Chooser) maybeCompare(v scheduler.View) {
	now := v.Now()
	if len(c.candidates) == 1 || c.started && now < c.next {
		return
	}
	c.next = (now/c.options.Every + 1) * c.options.Every
	if !c.started {
		c.started = true
		return
	}
	choice, ok := c.compare(v)
	if !ok {
		return
	}
	best := c.current
	for i, mean := range choice.Means {
		if mean < choice.Means[best] {
			best = i
		}
	}
	if choice.Means[best] < choice.Means[c.current]*(1-c.options.Margin) {
		c.current = best
	}
	choice.Chosen = c.current
	c.choices = append(c.choices, choice)
}

// compare computes the means. The candidates that took the fewest steps last time come first: their
// results may cut the others short.
func (c *Chooser) compare(v scheduler.View) (Choice, bool) {
	choice := Choice{At: v.Now(), Means: make([]float64, len(c.candidates))}
	if e, ok := v.(*scheduler.Engine); ok && e.Busy() == e.Live() {
		sum, jobs := sumRunning(e)
		choice.Jobs = jobs
		for i := range choice.Means {
			choice.Means[i] = sum / float64(max(1, jobs))
		}
		return choice, jobs > 0
	}
	slices.SortStableFunc(c.order, func(a, b int) int { return cmp.Compare(c.steps[a], c.steps[b]) })
	best, enough := math.Inf(1), math.Inf(1)
	for _, i := range c.order {
		most := min(best, enough)
		if i == c.current {
			most = best / max(0, 1-c.options.Margin)
		}
		mean, jobs, ok := c.simulate(v, i, most)
		if !ok || jobs == 0 {
			return choice, false
		}
		choice.Means[i], choice.Jobs = mean, jobs
		best = min(best, mean)
		if i == c.current {
			enough = mean * (1 - c.options.Margin)
		}
	}
	return choice, true
}

// slack exceeds the relative rounding error between two orders of summation.
const slack = 1e-9

// simulate returns the mean completion time in seconds of the present jobs under a candidate, or a
// lower bound if that exceeds most.
func (c *Chooser) simulate(v scheduler.View, candidate int, most float64) (mean float64, jobs int, ok bool) {
	take := c.candidates[candidate]
	e, err := scheduler.Fork(v, c.with(take.Order, take.Admit))
	if err != nil {
		return 0, 0, false
	}
	if !c.uniform {
		most = math.Inf(1)
	}
	sum, jobs, steps := drain(e, c.options.Steps, most*float64(e.Live())*(1+slack))
	c.steps[candidate] = steps
	return sum / float64(max(1, jobs)), jobs, true
}
