package template

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// bisection finds the best cut by branch and bound over the slowest stage's time. Of each span of
// times the table (slots.go) says what an iteration takes at least, and with which cut. That cut is
// a candidate; and a span that may have a better one is divided so that the same cut is in neither
// part.
type bisection struct {
	*slots
	open  []span
	found *pipeline.Template
	best  pipeline.Line // found's: that of the least time, and of these of the fastest slowest stage
}

// span are times that the slowest stage may take.
type span struct {
	low, high int64
	divide    int64 // the last of the first part
	atLeast   int64 // that an iteration takes
}

// best is the best cut, of equals the one with the fastest slowest stage; nil where none fits.
func (c *slots) best() *pipeline.Template {
	b := &bisection{slots: c}
	slowest := int64(0)
	for _, width := range c.widths {
		slowest = max(slowest, c.Profile.Time(0, c.Profile.Len(), width))
	}
	low := b.fastest(slowest)
	for high := low; ; high = min(high+high/4+1, slowest) {
		if b.try(low, high); b.found != nil || high == slowest {
			break
		}
	}
	if b.found == nil {
		return nil
	}
	// All that is slower takes longer: there are no more stages than GPUs and layers.
	stages := min(c.gpus, c.Profile.Len())
	b.open = nil
	b.try(low, (b.time()-c.least[c.Profile.Len()])/int64(c.microbatches-stages))
	for len(b.open) > 0 {
		s := b.next()
		b.try(s.low, s.divide)
		b.try(s.divide+1, s.high)
	}
	return b.found
}

// fastest is a time that the slowest stage takes at least.
func (b *bisection) fastest(slowest int64) int64 {
	low := int64(1)
	for low < slowest {
		if b.high = low + (slowest-low)/2; b.reach() == b.Profile.Len() {
			slowest = b.high
		} else {
			low = b.high + 1
		}
	}
	return low
}

// time is the best one that has been found.
func (b *bisection) time() int64 {
	if b.found == nil {
		return impossible - 1
	}
	return b.best.At(b.microbatches)
}

// limit is what an iteration may take whose slowest stage is in a span from low on, so that it is
// better than what has been found.
func (b *bisection) limit(low int64) int64 {
	if b.found != nil && low >= b.best.Each {
		return b.time() - 1
	}
	return b.time()
}

// try bounds a span, and keeps it if it may have something better than what has been found.
func (b *bisection) try(low, high int64) {
	if low > high {
		return
	}
	s := span{low: low, high: high, atLeast: b.run(low, high, b.limit(low))}
	if s.atLeast == impossible {
		return
	}
	stages, counted := b.trace()
	t := &pipeline.Template{Nodes: b.nodes, Microbatches: b.microbatches, Stages: stages}
	if took, line := t.Time(), t.Line(); took < b.time() || took == b.time() && line.Each < b.best.Each {
		b.found, b.best = t, line
	}
	// The bound is below the cut's time because another stage is slower than the one that counted for
	// the slowest, or as slow and behind it, or because that one is slower than low.
	switch slowest, took := t.Bottleneck(), stages[counted].Time; {
	case stages[slowest].Time > took:
		s.divide = took + (stages[slowest].Time-took)/2
	case slowest != counted:
		s.divide = took
	case took > low:
		s.divide = took - 1
	default:
		return
	}
	b.open = append(b.open, s)
}

// next takes the span of the least bound out, and drops those that have nothing better.
func (b *bisection) next() span {
	b.open = slices.DeleteFunc(b.open, func(s span) bool { return s.atLeast > b.limit(s.low) })
	if len(b.open) == 0 {
		return span{low: 1}
	}
	at := 0
	for i, s := range b.open {
		if cmp.Or(cmp.Compare(s.atLeast, b.open[at].atLeast), cmp.Compare(s.low, b.open[at].low)) < 0 {
			at = i
		}
	}
	s := b.open[at]
	b.open = slices.Delete(b.open, at, at+1)
	return s
}

// best are the best cuts for all sizes; nil for one that none fits.
func (s Search) best(smallest, largest int) []*pipeline.Template {
	found := make([]*pipeline.Template, largest-smallest+1)
	if s.GPUsPerNode == 1 {
		found = single(s.Profile, smallest, largest)
	}
	for i := range found {
		if found[i] == nil || !s.fitsAsItIs(found[i]) {
			found[i] = s.slots(smallest + i).best()
		}
	}
	return found
}

func (s Search) fitsAsItIs(t *pipeline.Template) bool {
	for i, stage := range t.Stages {
		if !s.holds(stage.From, stage.To, stage.GPUs, len(t.Stages)-i) {
			return false
		}
	}
	return true
}
