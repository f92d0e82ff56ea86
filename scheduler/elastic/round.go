package elastic

import (
	"container/heap"
	"math"

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

// round chooses which jobs run where. It keeps the memory of the last time.
type round struct {
	queue pairQueue
	out   []pair
	runs  map[*scheduler.Job]bool // jobs that are in out
}

// choose takes pairs by priority, the highest first, each job once, while there are GPUs. Among
// equal pairs, those that already run are first, then larger shares. Few of many pairs get GPUs, so
// they are in a heap and not sorted. The answer is valid until the next call.
func (r *round) choose(pairs []pair, avail *supply) []pair {
	r.queue.fill(pairs)
	heap.Init(&r.queue)
	if r.runs == nil {
		r.runs = map[*scheduler.Job]bool{}
	}
	clear(r.runs)
	r.out = r.out[:0]
	for r.queue.Len() > 0 && avail.total > 0 {
		p := &pairs[r.queue.order[0]]
		heap.Pop(&r.queue)
		if !r.runs[p.job] && avail.take(p.job, p.gpuType, p.job.GPUs()) {
			r.runs[p.job] = true
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

// fill makes the queue one of other pairs, which are not in order yet.
func (q *pairQueue) fill(pairs []pair) {
	q.pairs, q.order = pairs, q.order[:0]
	for i := range pairs {
		q.order = append(q.order, int32(i))
	}
}

func (q *pairQueue) Len() int { return len(q.order) }

func (q *pairQueue) Less(i, k int) bool {
	i, k = int(q.order[i]), int(q.order[k])
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

func (q *pairQueue) Swap(i, k int) { q.order[i], q.order[k] = q.order[k], q.order[i] }

// Push implements heap.Interface.
func (q *pairQueue) Push(i any) { q.order = append(q.order, i.(int32)) }

// Pop implements heap.Interface. The last one is the one that heap.Pop returns.
func (q *pairQueue) Pop() any {
	q.order = q.order[:len(q.order)-1]
	return nil
}
