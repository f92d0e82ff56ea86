package scheduler

import (
	"math"
	"math/bits"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// key is a job's place in a tree.
type key struct {
	tier  int
	value float64
	at    time.Duration
	id    cluster.JobID
}

// before reports whether k goes before another key. No value is a NaN.
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

// leaf is a job in a tree, with what is known of it and of all jobs below. Whatever a way down the
// tree looks at stands in the leaves themselves: a look at the job would cost as much as the step
// to the next leaf.
type leaf struct {
	key
	left, right *leaf
	heap        uint64 // a hash of the job's number: the tree's shape depends on what is in it, not on how it came there
	own, all    tally
	job         *Job
	shortest    *shortestTimes // nil in a tree that nobody searches for short jobs
}

// tally is what is known of one job or of several.
type tally struct {
	shapes  uint64 // what they want
	minGPUs int32  // the fewest GPUs that one of them needs
	held    int32  // the GPUs that they have
}

// shortestTimes are the shortest times that a job of each size at or below a leaf still takes.
type shortestTimes [sizes]time.Duration

// sizes is into how many sizes jobs are sorted: 1 GPU, 2, up to 4, up to 8 and so on. A short job
// is worth looking for only where it is small, too; a tree that knew the shortest job and the
// smallest one below a leaf could not tell whether they are the same.
const sizes = 8

// noTime stands for the shortest time where there is no job.
const noTime = time.Duration(math.MaxInt64)

func sizeClass(least int) int { return min(sizes-1, bits.Len(uint(max(0, least-1)))) }

// tree holds jobs in an order. Its operations take time with the log of its size.
type tree struct {
	root       *leaf
	size       int
	trackTimes bool // short jobs are looked for in it
}

// add puts a job in, at a seat of its own that is in no tree.
func (t *tree) add(n *leaf, k key, j *Job) *leaf {
	*n = leaf{key: k, job: j, heap: mixHash(uint64(k.id)), shortest: n.shortest}
	n.own = tally{shapes: j.shape.bit, minGPUs: int32(j.shape.minFree), held: int32(len(j.placement))}
	switch {
	case !t.trackTimes:
		n.shortest = nil // the seat may have been one of the queue
	case n.shortest == nil:
		n.shortest = new(shortestTimes)
	}
	n.update()
	t.root = insert(t.root, n)
	t.size++
	return n
}

// remove takes a leaf of the tree out.
func (t *tree) remove(n *leaf) {
	t.root = removeLeaf(t.root, n)
	t.size--
}

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

// split divides a tree into what is before a key and what is not.
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

// update works out what is known of the jobs at and below a leaf.
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

// heldGPUs is how many GPUs the jobs at and below a leaf have.
func (n *leaf) heldGPUs() int {
	if n == nil {
		return 0
	}
	return int(n.all.held)
}

// heldBehind is how many GPUs the jobs from a key on have.
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

// lastHolding finds the last job that has so many GPUs together with all behind it; nil where all
// together have fewer.
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

// filter is what the walk looks for in the queue.
type filter struct {
	skip     uint64        // shapes that found no place
	maxGPUs  int           // the most GPUs that a job may need
	limited  bool          // jobs must not take longer than their shapes' longest, which is
	maxTimes shortestTimes // at most so long for those of a size; below 0 where none of them may start
}

// matchAll is a wish that every job meets.
var matchAll = filter{maxGPUs: math.MaxInt}

// mayMatchBelow reports whether there may be a job at or below a leaf that meets the wish.
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

// mayMatch reports whether one of some jobs may be of the right shape and size.
func (w *filter) mayMatch(t *tally) bool { return t.shapes&^w.skip != 0 && int(t.minGPUs) <= w.maxGPUs }

// matches reports whether a leaf's own job meets the wish.
func (w *filter) matches(n *leaf) bool {
	return w.mayMatch(&n.own) && (!w.limited || n.job.timeLeft() <= n.job.shape.class.maxRuntime)
}

// first finds the first job behind a key that meets a wish, as far as leaves know.
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

// lastBefore finds the last job before a key, or the last of all.
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

// last finds the last job of which something is true that is true of all before it.
func (n *leaf) last(is func(*Job) bool) (found *leaf) {
	for n != nil {
		if is(n.job) {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// each walks a tree in order.
func (n *leaf) each(yield func(*Job) bool) bool {
	return n == nil || n.left.each(yield) && yield(n.job) && n.right.each(yield)
}

// mixHash is a bijection that leaves no pattern (the last steps of splitmix64).
func mixHash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
