package scheduler

import (
	"math"
	"math/bits"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// key orders the jobs of a tree.
type key struct {
	tier  int
	value float64
	at    time.Duration
	id    cluster.JobID
}

// before reports whether k is before another key. No value is a NaN.
func (k *key) before(other *key) bool {
	switch {
	case k.tier != other.tier:
		return k.tier < other.tier
	case k.value != other.value:
		return k.value < other.value
	case k.at != other.at:
		return k.at < other.at
	}
	return k.id < other.id
}

// leaf is a job in a tree, with aggregates over the job and all jobs below. Everything that a
// search reads is in the leaves themselves: reading the job would cost as much as the step to the
// next leaf.
type leaf struct {
	key
	left, right *leaf
	heap        uint64 // a hash of the job's number: the tree's shape depends on its contents, not on their history
	own, all    tally
	job         *Job
	shortest    *shortestTimes // nil in a tree that is not searched for short jobs
}

// tally is an aggregate over one or several jobs.
type tally struct {
	shapes  uint64 // bits of their shapes
	minGPUs int32  // the least minFree of them
	held    int32  // sum of their GPUs
}

// shortestTimes is the least remaining time of the jobs of each size class at or below a leaf.
type shortestTimes [sizes]time.Duration

// sizes is the number of size classes: 1 GPU, 2, up to 4, up to 8 and so on. A search for short
// jobs is useful only for jobs that are also small enough. With one minimum of the time and one of
// the size below a leaf, it would be unknown whether one job has both.
const sizes = 8

// noTime is the shortest time of no jobs.
const noTime = time.Duration(math.MaxInt64)

// sizeClass returns the class of a number of GPUs.
func sizeClass(least int) int { return min(sizes-1, bits.Len(uint(max(0, least-1)))) }

// tree is an ordered set of jobs. Its operations take O(log n).
type tree struct {
	root       *leaf
	size       int
	trackTimes bool // leaves have shortestTimes
}

// add inserts a job, in the memory of n, which must not be in a tree.
func (t *tree) add(n *leaf, k key, j *Job) *leaf {
	*n = leaf{key: k, job: j, heap: mixHash(uint64(k.id)), shortest: n.shortest}
	n.own = tally{shapes: j.shape.bit, minGPUs: int32(j.shape.minFree), held: int32(len(j.placement))}
	switch {
	case !t.trackTimes:
		n.shortest = nil // n may have been in the queue before
	case n.shortest == nil:
		n.shortest = new(shortestTimes)
	}
	n.update()
	t.root = insert(t.root, n)
	t.size++
	return n
}

// remove removes a leaf of the tree.
func (t *tree) remove(n *leaf) {
	t.root = removeLeaf(t.root, n)
	t.size--
}

// insert returns the treap t with n.
func insert(t, n *leaf) *leaf {
	if t == nil {
		return n
	}
	if n.heap > t.heap {
		n.left, n.right = split(t, &n.key)
		n.update()
		return n
	}
	if n.before(&t.key) {
		t.left = insert(t.left, n)
	} else {
		t.right = insert(t.right, n)
	}
	t.update()
	return t
}

// split divides a treap into the leaves before a key and the others.
func split(t *leaf, k *key) (before, behind *leaf) {
	if t == nil {
		return nil, nil
	}
	if t.before(k) {
		t.right, behind = split(t.right, k)
		before = t
	} else {
		before, t.left = split(t.left, k)
		behind = t
	}
	t.update()
	return before, behind
}

// removeLeaf returns the treap t without n.
func removeLeaf(t, n *leaf) *leaf {
	if t == n {
		return join(t.left, t.right)
	}
	if n.before(&t.key) {
		t.left = removeLeaf(t.left, n)
	} else {
		t.right = removeLeaf(t.right, n)
	}
	t.update()
	return t
}

// join returns the treap of two treaps, the first of which is before the second.
func join(a, b *leaf) *leaf {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.heap > b.heap:
		a.right = join(a.right, b)
		a.update()
		return a
	}
	b.left = join(a, b.left)
	b.update()
	return b
}

// update computes the aggregates of a leaf from those below.
func (n *leaf) update() {
	all := n.own
	if l := n.left; l != nil {
		all.add(&l.all)
	}
	if r := n.right; r != nil {
		all.add(&r.all)
	}
	n.all = all
	if n.shortest != nil {
		n.updateShortest()
	}
}

func (t *tally) add(more *tally) {
	t.shapes |= more.shapes
	t.minGPUs = min(t.minGPUs, more.minGPUs)
	t.held += more.held
}

// updateShortest computes the shortest times from the leaves below.
func (n *leaf) updateShortest() {
	for i := range n.shortest {
		n.shortest[i] = noTime
	}
	n.shortest[sizeClass(int(n.own.minGPUs))] = n.job.timeLeft()
	for _, below := range [2]*leaf{n.left, n.right} {
		if below != nil {
			for i := range n.shortest {
				n.shortest[i] = min(n.shortest[i], below.shortest[i])
			}
		}
	}
}

// heldGPUs returns the number of GPUs that the jobs at and below a leaf have.
func (n *leaf) heldGPUs() int {
	if n == nil {
		return 0
	}
	return int(n.all.held)
}

// heldBehind returns the number of GPUs that the jobs at and behind a key have.
func (n *leaf) heldBehind(k *key) (gpus int) {
	for n != nil {
		if n.before(k) {
			n = n.right
		} else {
			gpus += int(n.own.held) + n.right.heldGPUs()
			n = n.left
		}
	}
	return gpus
}

// lastHolding returns the last job that, together with all jobs behind it, has the given number of
// GPUs; nil if all of them have fewer.
func (n *leaf) lastHolding(gpus int) *leaf {
	for n != nil {
		behind := n.right.heldGPUs()
		switch {
		case behind >= gpus:
			n = n.right
		case behind+int(n.own.held) >= gpus:
			return n
		default:
			gpus -= behind + int(n.own.held)
			n = n.left
		}
	}
	return nil
}

// filter selects jobs of the queue.
type filter struct {
	skip     uint64        // shapes that found no place
	maxGPUs  int           // the most GPUs that a job may need
	limited  bool          // jobs must not run longer than their class's maxRuntime; of these,
	maxTimes shortestTimes // the largest by size class; negative if no job of the size may start
}

// matchAll matches every job.
var matchAll = filter{maxGPUs: math.MaxInt}

// mayMatchBelow reports whether a job at or below a leaf may match.
func (w *filter) mayMatchBelow(n *leaf) bool {
	if !w.mayMatch(&n.all) {
		return false
	}
	if !w.limited {
		return true
	}
	for i := range n.shortest {
		if n.shortest[i] != noTime && n.shortest[i] <= w.maxTimes[i] {
			return true
		}
	}
	return false
}

// mayMatch reports whether one of the aggregated jobs may have an allowed shape and size.
func (w *filter) mayMatch(t *tally) bool { return t.shapes&^w.skip != 0 && int(t.minGPUs) <= w.maxGPUs }

// matches reports whether a leaf's own job matches.
func (w *filter) matches(n *leaf) bool {
	return w.mayMatch(&n.own) && (!w.limited || n.job.timeLeft() <= n.job.shape.class.maxRuntime)
}

// first returns the first leaf behind a key that matches the filter.
func (n *leaf) first(after *key, w *filter) *leaf {
	if n == nil || !w.mayMatchBelow(n) {
		return nil
	}
	if after != nil && !after.before(&n.key) {
		return n.right.first(after, w)
	}
	if found := n.left.first(after, w); found != nil {
		return found
	}
	if w.matches(n) {
		return n
	}
	return n.right.first(nil, w)
}

// lastBefore returns the last job before a key; the last of all if the key is nil.
func (n *leaf) lastBefore(k *key) *leaf {
	var found *leaf
	for n != nil {
		if k == nil || n.before(k) {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// last returns the last job for which a condition holds that also holds for all jobs before it.
func (n *leaf) last(holds func(*Job) bool) (found *leaf) {
	for n != nil {
		if holds(n.job) {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// each calls yield for each job in order, and reports whether none returned false.
func (n *leaf) each(yield func(*Job) bool) bool {
	return n == nil || n.left.each(yield) && yield(n.job) && n.right.each(yield)
}

// mixHash is a bijection without visible pattern (the finalizer of splitmix64).
func mixHash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
