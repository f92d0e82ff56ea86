package backfill

import (
	"math/rand/v2"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// timeline is a number of GPUs over time, nought at first. Its steps are a treap: what is asked of it takes time with the log of their number.
type timeline struct {
	nodes []step // the first stands for none
	spare []int32
	root  int32
	dice  rand.PCG
}

// step is a time from which on the number is another one.
type step struct {
	at          time.Duration
	gpus        int
	add         int           // that the steps below, not this one, still have to be given
	least, most int           // of this step and those below
	first       time.Duration // of these
	left, right int32
	heap        uint64 // more than that of the steps below
}

// clear makes it nought everywhere.
func (l *timeline) clear() {
	if len(l.nodes) == 0 {
		l.nodes = make([]step, 1, 64)
	}
	l.nodes, l.spare, l.root = l.nodes[:1], l.spare[:0], 0
}

// add adds so many GPUs from one time to a later one.
func (l *timeline) add(from, to time.Duration, gpus int) {
	l.cut(from)
	l.cut(to)
	before, rest := l.split(l.root, from)
	middle, behind := l.split(rest, to)
	l.raise(middle, gpus)
	l.root = l.merge(before, l.merge(middle, behind))
	l.join(to)
	l.join(from)
}

// cut makes a step at a time, if there is none.
func (l *timeline) cut(at time.Duration) {
	from, gpus := l.level(at)
	if from == at {
		return
	}
	n := l.make(step{at: at, gpus: gpus, heap: l.dice.Uint64()})
	before, behind := l.split(l.root, at)
	l.root = l.merge(l.merge(before, n), behind)
}

// join takes the step at a time out if it changes nothing.
func (l *timeline) join(at time.Duration) {
	_, before := l.level(at - 1)
	if _, gpus := l.level(at); gpus != before {
		return
	}
	left, rest := l.split(l.root, at)
	step, right := l.split(rest, at+1)
	l.drop(step)
	l.root = l.merge(left, right)
}

// level is the number at a time, and from when on it has been so: before the first step, since -1.
func (l *timeline) level(at time.Duration) (from time.Duration, gpus int) {
	from = -1
	for n, add := l.root, 0; n != 0; {
		s := &l.nodes[n]
		if s.at <= at {
			from, gpus = s.at, s.gpus+add
			n, add = s.right, add+s.add
		} else {
			n, add = s.left, add+s.add
		}
	}
	return from, gpus
}

// after is the first step later than a time; Forever where there is none.
func (l *timeline) after(at time.Duration) time.Duration {
	next := scheduler.Forever
	for n := l.root; n != 0; {
		s := &l.nodes[n]
		if s.at > at {
			n, next = s.left, s.at
		} else {
			n = s.right
		}
	}
	return next
}

// expire forgets steps that were over before a time.
func (l *timeline) expire(now time.Duration) {
	from, _ := l.level(now)
	if from <= l.nodes[l.root].first {
		return
	}
	var past int32
	past, l.root = l.split(l.root, from)
	l.drop(past)
}

// make finds room for a step.
func (l *timeline) make(s step) int32 {
	var n int32
	if last := len(l.spare) - 1; last >= 0 {
		n, l.spare = l.spare[last], l.spare[:last]
	} else {
		n, l.nodes = int32(len(l.nodes)), append(l.nodes, step{})
	}
	l.nodes[n] = s
	l.gather(n)
	return n
}

// drop gives the room of a step and of all below back.
func (l *timeline) drop(n int32) {
	if n == 0 {
		return
	}
	l.drop(l.nodes[n].left)
	l.drop(l.nodes[n].right)
	l.spare = append(l.spare, n)
}

// raise adds GPUs to a step and to all below.
func (l *timeline) raise(n int32, gpus int) {
	if n == 0 {
		return
	}
	s := &l.nodes[n]
	s.gpus, s.add, s.least, s.most = s.gpus+gpus, s.add+gpus, s.least+gpus, s.most+gpus
}

// settle gives the steps right below a step what they still have to be given.
func (l *timeline) settle(n int32) {
	s := &l.nodes[n]
	if s.add != 0 {
		l.raise(s.left, s.add)
		l.raise(s.right, s.add)
		s.add = 0
	}
}

// gather works out what a step knows of those below, which are settled.
func (l *timeline) gather(n int32) {
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
	l.settle(n)
	if l.nodes[n].at < at {
		before, behind = l.split(l.nodes[n].right, at)
		l.nodes[n].right = before
		before = n
	} else {
		before, behind = l.split(l.nodes[n].left, at)
		l.nodes[n].left = behind
		behind = n
	}
	l.gather(n)
	return before, behind
}

// merge puts steps together, of which the first are all before the others.
func (l *timeline) merge(a, b int32) int32 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case l.nodes[a].heap > l.nodes[b].heap:
		l.settle(a)
		l.nodes[a].right = l.merge(l.nodes[a].right, b)
		l.gather(a)
		return a
	}
	l.settle(b)
	l.nodes[b].left = l.merge(a, l.nodes[b].left)
	l.gather(b)
	return b
}
