package backfill

import (
	"math/rand/v2"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// timeline is a number of GPUs over time, initially 0. Its steps are a treap with lazy addition:
// operations take O(log n).
type timeline struct {
	nodes  []step // index 0 means no step
	spare  []int32
	root   int32
	random rand.PCG
}

// step is a time from which on the number is different.
type step struct {
	at          time.Duration
	gpus        int
	add         int           // to be added to all steps below, not to this one
	least, most int           // of this step and those below, without the adds above
	first       time.Duration // the earliest time of these
	left, right int32
	heap        uint64 // greater than that of the steps below
}

// reset makes it 0 everywhere.
func (l *timeline) reset() {
	if len(l.nodes) == 0 {
		l.nodes = make([]step, 1, 64)
	}
	l.nodes, l.spare, l.root = l.nodes[:1], l.spare[:0], 0
}

// add adds GPUs from one time to a later one. It splits the treap once and merges it once:
// reservations are made and cancelled by the million.
func (l *timeline) add(from, to time.Duration, gpus int) {
	before, rest := l.split(l.root, from)
	middle, behind := l.split(rest, to)
	level := l.lastLevel(before, 0)
	end := l.lastLevel(middle, level)
	middle, began := l.stepAt(middle, from, level)
	l.addAll(middle, gpus)
	behind, ended := l.stepAt(behind, to, end)
	if ended && l.level(behind, to) == l.lastLevel(middle, 0) {
		behind = l.removeFirst(behind, to)
	}
	if began && l.level(middle, from) == level {
		middle = l.removeFirst(middle, from)
	}
	l.root = l.merge(before, l.merge(middle, behind))
}

// lastLevel returns the level after the last of some steps; none if there are no steps.
func (l *timeline) lastLevel(n int32, none int) int {
	if n == 0 {
		return none
	}
	add := 0
	for l.nodes[n].right != 0 {
		add += l.nodes[n].add
		n = l.nodes[n].right
	}
	return l.nodes[n].gpus + add
}

// stepAt makes sure that a step begins at a time that is not after the first of some steps. had
// reports whether there was one.
func (l *timeline) stepAt(n int32, at time.Duration, gpus int) (begins int32, had bool) {
	if n != 0 && l.nodes[n].first == at {
		return n, true
	}
	return l.merge(l.newStep(step{at: at, gpus: gpus, heap: l.random.Uint64()}), n), false
}

// removeFirst removes the first step, which is at the given time.
func (l *timeline) removeFirst(n int32, at time.Duration) int32 {
	first, rest := l.split(n, at+1)
	l.free(first)
	return rest
}

// level returns the level at a time, given some steps.
func (l *timeline) level(n int32, at time.Duration) (gpus int) {
	for add := 0; n != 0; {
		s := &l.nodes[n]
		if s.at <= at {
			gpus = s.gpus + add
			n, add = s.right, add+s.add
		} else {
			n, add = s.left, add+s.add
		}
	}
	return gpus
}

// levelAt returns the level at a time, since when it holds (-1 before the first step), and until
// when (Forever if there is no later step).
func (l *timeline) levelAt(at time.Duration) (gpus int, since, until time.Duration) {
	since, until = -1, scheduler.Forever
	for n, add := l.root, 0; n != 0; {
		s := &l.nodes[n]
		if s.at <= at {
			since, gpus = s.at, s.gpus+add
			n, add = s.right, add+s.add
		} else {
			until = s.at
			n, add = s.left, add+s.add
		}
	}
	return gpus, since, until
}

// expire removes steps that ended before a time.
func (l *timeline) expire(now time.Duration) {
	_, from, _ := l.levelAt(now)
	if from <= l.nodes[l.root].first {
		return
	}
	var past int32
	past, l.root = l.split(l.root, from)
	l.free(past)
}

// newStep allocates a node.
func (l *timeline) newStep(s step) int32 {
	var n int32
	if last := len(l.spare) - 1; last >= 0 {
		n, l.spare = l.spare[last], l.spare[:last]
	} else {
		n, l.nodes = int32(len(l.nodes)), append(l.nodes, step{})
	}
	l.nodes[n] = s
	l.update(n)
	return n
}

// free returns the nodes at and below n.
func (l *timeline) free(n int32) {
	if n == 0 {
		return
	}
	l.free(l.nodes[n].left)
	l.free(l.nodes[n].right)
	l.spare = append(l.spare, n)
}

// addAll adds GPUs to a step and to all below.
func (l *timeline) addAll(n int32, gpus int) {
	if n == 0 {
		return
	}
	s := &l.nodes[n]
	s.gpus, s.add, s.least, s.most = s.gpus+gpus, s.add+gpus, s.least+gpus, s.most+gpus
}

// pushDown moves a step's pending addition to its children.
func (l *timeline) pushDown(n int32) {
	s := &l.nodes[n]
	if s.add != 0 {
		l.addAll(s.left, s.add)
		l.addAll(s.right, s.add)
		s.add = 0
	}
}

// update computes a step's aggregates from its children, which have no pending additions from
// above.
func (l *timeline) update(n int32) {
	s := &l.nodes[n]
	s.least, s.most, s.first = s.gpus, s.gpus, s.at
	if s.left != 0 {
		left := &l.nodes[s.left]
		s.least, s.most, s.first = min(s.least, left.least), max(s.most, left.most), left.first
	}
	if s.right != 0 {
		right := &l.nodes[s.right]
		s.least, s.most = min(s.least, right.least), max(s.most, right.most)
	}
}

// split divides steps into those before a time and the others.
func (l *timeline) split(n int32, at time.Duration) (before, behind int32) {
	if n == 0 {
		return 0, 0
	}
	l.pushDown(n)
	if l.nodes[n].at < at {
		before, behind = l.split(l.nodes[n].right, at)
		l.nodes[n].right = before
		before = n
	} else {
		before, behind = l.split(l.nodes[n].left, at)
		l.nodes[n].left = behind
		behind = n
	}
	l.update(n)
	return before, behind
}

// merge joins steps, of which a's are all before b's.
func (l *timeline) merge(a, b int32) int32 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case l.nodes[a].heap > l.nodes[b].heap:
		l.pushDown(a)
		l.nodes[a].right = l.merge(l.nodes[a].right, b)
		l.update(a)
		return a
	}
	l.pushDown(b)
	l.nodes[b].left = l.merge(a, l.nodes[b].left)
	l.update(b)
	return b
}
