package template

import (
	"cmp"
	"context"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// bisection finds the best cut by branch and bound over the slowest stage's time. For each span of
// times the table (slots.go) gives a lower bound of an iteration, and a cut that attains it. That
// cut is a candidate; a span that may contain a better one is divided so that neither part has the
// same cut.
type bisection struct {
	*slots
	open  []span
	found *pipeline.Template
	best  pipeline.Line // that of found: the least time, and of these the fastest slowest stage
}

// span is a range of times of the slowest stage.
type span struct {
	low, high int64
	divide    int64 // the end of the first part
	atLeast   int64 // lower bound of the iteration time
}

// best returns the best cut, of equal ones the one with the fastest slowest stage; nil if none
// fits.
func (c *slots) best() *pipeline.Template {
	b := &bisection{slots: c}
	slowest := int64(0)
	for _, width := range c.widths {
		slowest = max(slowest, c.Profile.Time(0, c.Profile.Len(), width))
	}
	low := b.fastest(slowest)
	for high := low; b.ctx.Err() == nil; high = min(high+high/4+1, slowest) {
		if b.try(low, high); b.found != nil || high == slowest {
			break
		}
	}
	if b.found == nil {
		return nil
	}
	// All slower ones take longer: there are at most as many stages as GPUs and layers.
	stages := min(c.gpus, c.Profile.Len())
	b.open = nil
	b.try(low, (b.time()-c.work)/int64(c.microbatches-stages))
	for len(b.open) > 0 {
		s := b.next()
		b.try(s.low, s.divide)
		b.try(s.divide+1, s.high)
	}
	return b.found
}

// fastest returns a lower bound of the slowest stage's time.
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

// time returns the best time found so far.
func (b *bisection) time() int64 {
	if b.found == nil {
		return impossible - 1
	}
	return b.best.At(b.microbatches)
}

// limit returns the most that an iteration may take, with a slowest stage from low on, to improve
// on the best.
func (b *bisection) limit(low int64) int64 {
	if b.found != nil && low >= b.best.Each {
		return b.time() - 1
	}
	return b.time()
}

// try bounds a span, and keeps it if it may contain an improvement.
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
	// The bound is below the cut's time for one of three reasons: another stage is slower than the
	// one that counted as slowest; another stage is as slow and behind it; or the counted stage is
	// slower than low.
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

// next removes and returns the span with the least bound, and drops those without improvement.
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

// best returns the best cuts for all sizes; nil for sizes that do not fit.
func (s Search) best(ctx context.Context, smallest, largest int) []*pipeline.Template {
	found := make([]*pipeline.Template, largest-smallest+1)
	if s.GPUsPerNode == 1 {
		found = single(ctx, s.Profile, smallest, largest)
	}
	for i := 0; i < len(found) && ctx.Err() == nil; i++ {
		if found[i] == nil || !s.fitsAsItIs(found[i]) {
			found[i] = s.slots(ctx, smallest+i).best()
		}
		if s.Progress != nil {
			s.Progress(i+1, len(found))
		}
	}
	return found
}

// fitsAsItIs reports whether a cut that was found without regard to memory fits.
func (s Search) fitsAsItIs(t *pipeline.Template) bool {
	for i, stage := range t.Stages {
		if !s.holds(stage.From, stage.To, stage.GPUs, len(t.Stages)-i) {
			return false
		}
	}
	return true
}
