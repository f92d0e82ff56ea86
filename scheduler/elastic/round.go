package elastic

import (
	"math"

	"github.com/phos-gpu/phos/scheduler"
)

// pair is a job on a type of GPU.
type pair struct {
	job      *scheduler.Job
	number   int // of the job, among those of the round
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

// round chooses which jobs run where. It keeps the memory of the last time.
type round struct {
	queue pairQueue
	out   []pair
	runs  []bool // by the job's number: it is in out
}

// choose takes pairs by priority, the highest first, each job once, while there are GPUs. Among
// equal pairs, those that already run are first, then larger shares. Few of many pairs get GPUs, so
// they are in a heap and not sorted. The answer is valid until the next call.
func (r *round) choose(pairs []pair, jobs int, avail *supply) []pair {
	r.queue.fill(pairs)
	r.runs = append(r.runs[:0], make([]bool, jobs)...)
	r.out = r.out[:0]
	for len(r.queue.order) > 0 && avail.total > 0 {
		p := r.queue.pop()
		if !r.runs[p.number] && avail.take(p.job, p.gpuType, p.job.GPUs()) {
			r.runs[p.number] = true
			r.out = append(r.out, *p)
		}
	}
	return r.out
}

// pairQueue is a heap of pairs, the first one on top. Equal ones are in their given order.
type pairQueue struct {
	pairs []pair
	order []int32
}

// fill makes the queue one of other pairs.
func (q *pairQueue) fill(pairs []pair) {
	q.pairs, q.order = pairs, q.order[:0]
	for i := range pairs {
		q.order = append(q.order, int32(i))
	}
	for at := len(q.order)/2 - 1; at >= 0; at-- {
		q.sink(at)
	}
}

// pop removes and returns the first pair. The queue must not be empty.
func (q *pairQueue) pop() *pair {
	first, last := q.order[0], len(q.order)-1
	q.order[0] = q.order[last]
	q.order = q.order[:last]
	if last > 0 {
		q.sink(0)
	}
	return &q.pairs[first]
}

// sink moves the pair at an index down until the heap is in order.
func (q *pairQueue) sink(at int) {
	moved := q.order[at]
	for {
		below := 2*at + 1
		if below+1 < len(q.order) && q.less(q.order[below+1], q.order[below]) {
			below++
		}
		if below >= len(q.order) || !q.less(q.order[below], moved) {
			q.order[at] = moved
			return
		}
		q.order[at] = q.order[below]
		at = below
	}
}

// less reports whether one pair is before another.
func (q *pairQueue) less(i, k int32) bool {
	a, b := &q.pairs[i], &q.pairs[k]
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.runs != b.runs:
		return a.runs
	case a.share != b.share:
		return a.share > b.share
	case a.job != b.job:
		return a.job.ID() < b.job.ID()
	}
	return i < k
}
