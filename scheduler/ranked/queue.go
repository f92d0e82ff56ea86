package ranked

import (
	"math"
	"math/bits"
	"time"
)

// Need is what decides, of jobs that wait, whether they are worth looking at.
type Need struct {
	Shape   uint64 // the bit of its shape
	MinGPUs int    // how many GPUs must be unused
}

// Queue is jobs that wait, in order. It has a lane for all jobs with the same need, so that the
// first job of each, which is nearly all that is asked for, is known.
type Queue[J any] struct {
	Size       int
	TrackTimes bool // the queue is searched for short jobs

	needs []Need // of the lanes
	lanes []*lane[J]
}

// lane is the jobs with the same need. Those that were the last ones when they were added are in a
// run, all others in a tree.
type lane[J any] struct {
	run   run[J]
	tree  Tree[J]
	early Entry[J] // the first one of the tree
	first Entry[J] // of all
}

// Filter selects jobs of a queue.
type Filter struct {
	Skip     uint64        // shapes that found no place
	MaxGPUs  int           // the most GPUs that a job may need
	Limited  bool          // jobs must not run longer than they may; of these times,
	MaxTimes ShortestTimes // the largest by size class; negative if no job of the size may start
}

// MatchAll matches every job.
var MatchAll = Filter{MaxGPUs: math.MaxInt}

// ShortestTimes is a time for each size class.
type ShortestTimes [sizes]time.Duration

// sizes is the number of size classes: 1 GPU, 2, up to 4, up to 8 and so on.
const sizes = 8

// SizeClass returns the class of a number of GPUs.
func SizeClass(least int) int { return min(sizes-1, bits.Len(uint(max(0, least-1)))) }

// Add inserts a job, in the memory of n, which must not be in a queue or a tree.
func (q *Queue[J]) Add(n *Leaf[J], k Key, job J, need Need, own Content) *Leaf[J] {
	l := q.laneOf(need)
	if !q.TrackTimes && l.run.follows(&k) {
		n.Key, n.Job = k, job
		l.run.add(n)
	} else {
		l.tree.Add(n, k, job, own)
		l.early = *earlier(&l.early, &Entry[J]{k, job, n})
	}
	n.lane = l
	l.first = *earlier(&l.first, &Entry[J]{k, job, n})
	q.Size++
	return n
}

// laneOf returns the lane of a need, which it may have to create.
func (q *Queue[J]) laneOf(need Need) *lane[J] {
	for i := range q.needs {
		if q.needs[i] == need {
			return q.lanes[i]
		}
	}
	l := &lane[J]{tree: Tree[J]{Sums: q.TrackTimes}}
	q.needs, q.lanes = append(q.needs, need), append(q.lanes, l)
	return l
}

// Remove removes a leaf of the queue.
func (q *Queue[J]) Remove(n *Leaf[J]) {
	l := n.lane
	if n.place > 0 {
		l.run.remove(n)
	} else {
		if l.early.leaf == n {
			l.early = n.next().entry()
		}
		l.tree.Remove(n)
	}
	if l.first.leaf == n {
		next := l.run.first()
		l.first = *earlier(&next, &l.early)
	}
	n.lane = nil
	q.Size--
}

// firstAfter returns the first entry behind a key.
func (l *lane[J]) firstAfter(k *Key) Entry[J] {
	a, b := l.run.firstAfter(k), l.tree.firstAfter(k).entry()
	return *earlier(&a, &b)
}

// First returns the first job that matches a filter, behind a key unless that is nil; ok is false
// if there is none.
func (q *Queue[J]) First(after *Key, w *Filter) (first Entry[J], ok bool) {
	for i, need := range q.needs {
		l := q.lanes[i]
		if need.Shape&^w.Skip == 0 || need.MinGPUs > w.MaxGPUs || l.first.leaf == nil || earlier(&first, &l.first) == &first {
			continue
		}
		found := l.first
		if w.Limited {
			found = l.tree.root.firstShort(after, w.MaxTimes[SizeClass(need.MinGPUs)]).entry()
		} else if after != nil && !after.Before(&found.Key) {
			found = l.firstAfter(after)
		}
		first = *earlier(&first, &found)
	}
	return first, first.leaf != nil
}

// Each calls yield for each job in order, and reports whether none returned false.
func (q *Queue[J]) Each(yield func(J) bool) bool {
	m := merge[J]{}
	for _, l := range q.lanes {
		for _, head := range [...]Entry[J]{l.early, l.run.first()} {
			if head.leaf != nil {
				m.heads = append(m.heads, head)
			}
		}
	}
	for i := len(m.heads)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	for len(m.heads) > 0 {
		if !yield(m.heads[0].Job) {
			return false
		}
		m.advance()
	}
	return true
}

// merge is a heap of the next entries of several runs and trees.
type merge[J any] struct{ heads []Entry[J] }

// advance goes on to the entry behind the first one.
func (m *merge[J]) advance() {
	if next := m.heads[0].following(); next.leaf != nil {
		m.heads[0] = next
	} else {
		last := len(m.heads) - 1
		m.heads[0] = m.heads[last]
		m.heads = m.heads[:last]
	}
	m.sink(0)
}

// following returns the entry behind e in its run or tree.
func (e *Entry[J]) following() Entry[J] {
	if e.leaf.place > 0 {
		return e.leaf.lane.run.next(e.leaf)
	}
	return e.leaf.next().entry()
}

// sink moves a head down until the heap is in order.
func (m *merge[J]) sink(at int) {
	for {
		least := at
		for below := 2*at + 1; below <= 2*at+2 && below < len(m.heads); below++ {
			if m.heads[below].Before(&m.heads[least].Key) {
				least = below
			}
		}
		if least == at {
			return
		}
		m.heads[at], m.heads[least] = m.heads[least], m.heads[at]
		at = least
	}
}
