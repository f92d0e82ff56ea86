package instance

import (
	"context"
	"math"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// Combination is the number of pipelines of each template, and the microbatches of each of them.
type Combination struct {
	Counts []int // by template
	Split  []int // by template; 0 if there is none. nil if equal pipelines get unequal parts
	Time   int64 // of an iteration

	// AtLeast is Time if no combination is faster. It is less if there were too many combinations that
	// could do the batch in time but cannot split it evenly; then none is faster than AtLeast.
	AtLeast int64
}

// Problem is the input of the search for a combination.
type Problem struct {
	Smallest     int             // nodes of the first template; each further one is larger by one
	Lines        []pipeline.Line // of the templates
	Nodes        int
	Pipelines    int // at least
	Microbatches int
	AllReduce    func(pipelines int) int64
	Uneven       bool // pipelines of one template may get unequal parts of the batch

	// The bound for one limit is needed with many numbers of pipelines in a row.
	bound      hull
	boundLimit int64
	reduces    []int64 // AllReduce by number of pipelines, as far as computed
}

// Limits of the search effort, in states and corners of bounds: until any combination is found, for
// each number of pipelines, and in all. A hundred nodes need far less; the limit takes some ten
// milliseconds.
const (
	firstEffort = 50_000
	maxEffort   = 20_000_000
	// checkEvery is after how many states a walk checks its context.
	checkEvery = 1 << 10
)

func (p *Problem) largest() int { return p.Smallest + len(p.Lines) - 1 }

// counts returns the possible numbers of pipelines; none if fewest > most.
func (p *Problem) counts() (fewest, most int) {
	return max(p.Pipelines, (p.Nodes+p.largest()-1)/p.largest()), p.Nodes / p.Smallest
}

// caps returns the microbatches that a pipeline of each size does within a time.
func (p *Problem) caps(limit int64) []int {
	caps := make([]int, len(p.Lines))
	for i, line := range p.Lines {
		caps[i] = min(line.MaxWithin(limit), p.Microbatches)
	}
	return caps
}

// mayFit reports whether so many pipelines might do the batch within a time. A negative answer is
// certain, a positive one is not.
func (p *Problem) mayFit(pipelines int, limit int64) bool {
	if p.bound.sizes == nil || p.boundLimit != limit {
		p.bound, p.boundLimit = hullOf(p.Smallest, p.caps(limit)), limit
	}
	all, ok := p.bound.bound(pipelines, p.Nodes)
	return ok && all >= p.Microbatches
}

// allReduce caches AllReduce, which may take a search.
func (p *Problem) allReduce(pipelines int) int64 {
	for len(p.reduces) <= pipelines {
		p.reduces = append(p.reduces, p.AllReduce(len(p.reduces)))
	}
	return p.reduces[pipelines]
}

// Solve returns the combination with the least iteration time; nil if there is none, or none that
// the batch can be split over. Once ctx is done the search ends, with any result.
func (p *Problem) Solve(ctx context.Context) *Combination {
	fewest, most := p.counts()
	order := p.orderByBound(fewest, min(most, p.Microbatches))
	best := &Combination{Time: math.MaxInt64}
	for _, pipelines := range order {
		if p.improve(ctx, best, pipelines, firstEffort); best.Counts != nil {
			break
		}
	}
	best.AtLeast = best.Time
	effort := maxEffort
	for _, pipelines := range order {
		if best.Counts == nil || p.mayFit(pipelines, best.Time-1-p.allReduce(pipelines)) {
			var surely int64
			effort, surely = p.improve(ctx, best, pipelines, effort)
			best.AtLeast = min(best.AtLeast, surely)
		}
	}
	if best.Counts == nil {
		return nil
	}
	best.AtLeast = min(best.AtLeast, best.Time)
	return best
}

// orderByBound orders numbers of pipelines so that a fast combination is found early: those with
// the lowest bound first.
func (p *Problem) orderByBound(fewest, most int) (order []int) {
	if fewest > most {
		return nil
	}
	limit := bisect(0, p.upperLimit(), func(limit int64) bool {
		for pipelines := fewest; pipelines <= most; pipelines++ {
			if p.mayFit(pipelines, limit-p.allReduce(pipelines)) {
				return true
			}
		}
		return false
	})
	var others []int
	for pipelines := most; pipelines >= fewest; pipelines-- {
		if p.mayFit(pipelines, limit-p.allReduce(pipelines)) {
			order = append(order, pipelines)
		} else {
			others = append(others, pipelines)
		}
	}
	return append(order, others...)
}

// upperLimit returns a time in which any pipeline does the whole batch, plus the slowest
// all-reduce.
func (p *Problem) upperLimit() (limit int64) {
	for _, line := range p.Lines {
		limit = max(limit, line.At(p.Microbatches))
	}
	fewest, most := p.counts()
	var reduce int64
	for pipelines := fewest; pipelines <= most; pipelines++ {
		reduce = max(reduce, p.allReduce(pipelines))
	}
	return limit + reduce
}

// bisect returns the least value from low to high for which a monotonic condition holds.
func bisect(low, high int64, holds func(int64) bool) int64 {
	for low < high {
		if middle := low + (high-low)/2; holds(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// improve searches for a faster combination of so many pipelines, for increasing time limits,
// within an effort. It returns the remaining effort, and a lower bound of the time of all
// combinations of so many pipelines.
func (p *Problem) improve(ctx context.Context, best *Combination, pipelines, effort int) (left int, surely int64) {
	reduce, enough := p.allReduce(pipelines), p.upperLimit()
	limit := bisect(0, enough, func(limit int64) bool { return p.mayFit(pipelines, limit) })
	for ; limit <= enough && limit+reduce < best.Time && ctx.Err() == nil; limit = p.next(limit) {
		w := p.newWalk(ctx, limit, effort-len(p.Lines)*len(p.Lines))
		found := w.search(0, pipelines, p.Nodes, 0)
		effort = w.effort
		if found {
			best.Counts, best.Split, best.Time = w.counts, w.split, w.slowest+reduce
			return effort, best.Time
		}
		if effort < 0 {
			return effort, limit + reduce
		}
	}
	return effort, best.Time
}

// next returns the next time at which a pipeline completes one more microbatch.
func (p *Problem) next(limit int64) int64 {
	next := int64(math.MaxInt64)
	for _, line := range p.Lines {
		next = min(next, line.At(max(1, line.MaxWithin(limit)+1)))
	}
	return next
}

// walk goes through the combinations that the bounds allow, for one time limit.
type walk struct {
	*Problem
	ctx     context.Context
	limit   int64
	caps    []int
	hulls   []hull // of the templates from one on, as far as computed
	counts  []int
	split   []int
	slowest int64
	effort  int
	steps   int // states so far
}

// newWalk returns a walk over combinations no slower than limit, in nanoseconds, within an effort.
func (p *Problem) newWalk(ctx context.Context, limit int64, effort int) *walk {
	return &walk{
		Problem: p,
		ctx:     ctx,
		limit:   limit,
		caps:    p.caps(limit),
		counts:  make([]int, len(p.Lines)),
		effort:  effort,
		hulls:   make([]hull, len(p.Lines)),
	}
}

// bound returns the most that pipelines of template i and those behind it can do.
func (w *walk) bound(i, pipelines, nodes int) (all int, ok bool) {
	if w.hulls[i].sizes == nil {
		w.hulls[i] = hullOf(w.Smallest+i, w.caps[i:])
	}
	return w.hulls[i].bound(pipelines, nodes)
}

// search decides the number of pipelines of template i and of those behind it, for the remaining
// pipelines and nodes.
func (w *walk) search(i, pipelines, nodes, done int) bool {
	if pipelines == 0 {
		return nodes == 0 && done >= w.Microbatches && w.splitBatch()
	}
	if w.steps++; w.steps%checkEvery == 0 && w.ctx.Err() != nil {
		w.effort = 0
	}
	if w.effort--; w.effort < 0 || i == len(w.Lines) {
		return false
	}
	most, ok := w.bound(i, pipelines, nodes)
	if !ok || done+most < w.Microbatches {
		return false
	}
	size := w.Smallest + i
	few := 0
	if w.caps[i] > 0 {
		few = min(pipelines, nodes/size)
	}
	for n := few; n >= 0; n-- {
		w.counts[i] = n
		if w.search(i+1, pipelines-n, nodes-n*size, done+n*w.caps[i]) {
			return true
		}
	}
	w.counts[i] = 0
	return false
}

// splitBatch splits the batch over the current combination.
func (w *walk) splitBatch() bool {
	var shares []Share
	for i, n := range w.counts {
		if n > 0 {
			shares = append(shares, Share{w.Lines[i], n})
		}
	}
	if w.Uneven {
		return w.splitUnevenly(shares)
	}
	w.effort -= len(shares) * (10 + (w.capacity()-w.Microbatches)/4)
	split := splitWithin(shares, w.Microbatches, w.limit)
	if split == nil {
		return false
	}
	w.slowest = slowestOf(shares, split)
	w.split = make([]int, len(w.counts))
	for i, n := range w.counts {
		if n > 0 {
			w.split[i], split = split[0], split[1:]
		}
	}
	return true
}

// splitUnevenly splits the batch over single pipelines. Any batch can be split that has a
// microbatch for each.
func (w *walk) splitUnevenly(shares []Share) bool {
	slowest := leastLimit(shares, w.Microbatches)
	if pipelines(shares) > w.Microbatches || slowest > w.limit {
		return false
	}
	w.slowest, w.split = slowest, nil
	return true
}

// capacity returns what the current combination does in time; the excess determines the cost of
// finding a split.
func (w *walk) capacity() (all int) {
	for i, n := range w.counts {
		all += n * w.caps[i]
	}
	return all
}
