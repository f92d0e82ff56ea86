package backfill

import (
	"math/rand/v2"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// timeline is a number of GPUs over time, nought at first. Its steps are a treap: what is asked of
// it takes time with the log of their number.
type timeline struct {
	nodes  []step // the first stands for none
	spare  []int32
	root   int32
	random rand.PCG
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

// reset makes it nought everywhere.
func (l *timeline) reset() {
	if len(l.nodes) == 0 {
		l.nodes = make([]step, 1, 64)
	}
	l.nodes, l.spare, l.root = l.nodes[:1], l.spare[:0], 0
}

// add adds so many GPUs from one time to a later one. It takes the steps apart once and puts them
// together once: promises are made and taken back by the million.
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

// lastLevel is the number behind the last of some steps, or another one where there are none.
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

// stepAt lets steps begin at a time that is not behind the first of them; had says that they did
// already.
func (l *timeline) stepAt(n int32, at time.Duration, gpus int) (begins int32, had bool) {
	if n != 0 && l.nodes[n].first == at {
		return n, true
	}
	return l.merge(l.newStep(step{at: at, gpus: gpus, heap: l.random.Uint64()}), n), false
}

// removeFirst takes the first step out, which is at a time.
func (l *timeline) removeFirst(n int32, at time.Duration) int32 {
	first, rest := l.split(n, at+1)
	l.free(first)
	return rest
}

// level is the number at a time by some steps.
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

// levelAt is the number at a time, since when it has been so (-1 before the first step), and until
// when it stays so: Forever where it does.
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

// expire forgets steps that were over before a time.
func (l *timeline) expire(now time.Duration) {
	_, from, _ := l.levelAt(now)
	if from <= l.nodes[l.root].first {
		return
	}
	var past int32
	past, l.root = l.split(l.root, from)
	l.free(past)
}

// newStep finds room for a step.
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

// free gives the room of a step and of all below back.
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

// pushDown gives the steps right below a step what they still have to be given.
func (l *timeline) pushDown(n int32) {
	s := &l.nodes[n]
	if s.add != 0 {
		l.addAll(s.left, s.add)
		l.addAll(s.right, s.add)
		s.add = 0
	}
}

// update works out what a step knows of those below, which are settled.
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

// merge puts steps together, of which the first are all before the others.
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
