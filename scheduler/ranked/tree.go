package ranked

import (
	"math"
	"math/bits"
	"time"
)

// Key orders the jobs of a tree.
type Key struct {
	Tier  int
	Value float64
	At    time.Duration
	ID    int64
}

// Before reports whether k is before another key. No value is a NaN.
func (k *Key) Before(other *Key) bool {
	switch {
	case k.Tier != other.Tier:
		return k.Tier < other.Tier
	case k.Value != other.Value:
		return k.Value < other.Value
	case k.At != other.At:
		return k.At < other.At
	}
	return k.ID < other.ID
}

// Leaf is a job in a tree, with aggregates over the job and all jobs below. Everything that a
// search reads is in the leaves themselves: reading the job would cost as much as the step to the
// next leaf.
type Leaf[J any] struct {
	Key
	left, right *Leaf[J]
	heap        uint64 // a hash of the job's number: the tree's shape depends on its contents, not on their history
	Own, all    Tally
	Job         J
	time        Remaining
	shortest    *ShortestTimes // nil in a tree that is not searched for short jobs
}

// Remaining is how long a job will run, and how long it may if it starts now.
type Remaining struct {
	Time    time.Duration
	Longest *time.Duration
}

// Tally is an aggregate over one or several jobs.
type Tally struct {
	Shapes  uint64 // bits of their shapes
	MinGPUs int32  // the least number of unused GPUs that one of them needs
	Held    int32  // sum of their GPUs
}

// ShortestTimes is the least remaining time of the jobs of each size class at or below a leaf.
type ShortestTimes [sizes]time.Duration

// sizes is the number of size classes: 1 GPU, 2, up to 4, up to 8 and so on. A search for short
// jobs is useful only for jobs that are also small enough. With one minimum of the time and one of
// the size below a leaf, it would be unknown whether one job has both.
const sizes = 8

// NoTime is the shortest time of no jobs.
const NoTime = time.Duration(math.MaxInt64)

// SizeClass returns the class of a number of GPUs.
func SizeClass(least int) int { return min(sizes-1, bits.Len(uint(max(0, least-1)))) }

// Tree is an ordered set of jobs. Its operations take O(log n).
type Tree[J any] struct {
	Root       *Leaf[J]
	Size       int
	TrackTimes bool // the tree is searched for short jobs
}

// Add inserts a job, in the memory of n, which must not be in a tree.
func (t *Tree[J]) Add(n *Leaf[J], k Key, job J, own Tally, time Remaining) *Leaf[J] {
	*n = Leaf[J]{Key: k, Job: job, heap: mixHash(uint64(k.ID)), Own: own, time: time, shortest: n.shortest}
	switch {
	case !t.TrackTimes:
		n.shortest = nil // n may have been in the queue before
	case n.shortest == nil:
		n.shortest = new(ShortestTimes)
	}
	n.update()
	t.Root = insert(t.Root, n)
	t.Size++
	return n
}

// Remove removes a leaf of the tree.
func (t *Tree[J]) Remove(n *Leaf[J]) {
	t.Root = removeLeaf(t.Root, n)
	t.Size--
}

// insert returns the treap t with n.
func insert[J any](t, n *Leaf[J]) *Leaf[J] {
	if t == nil {
		return n
	}
	if n.heap > t.heap {
		n.left, n.right = split(t, &n.Key)
		n.update()
		return n
	}
	if n.Before(&t.Key) {
		t.left = insert(t.left, n)
	} else {
		t.right = insert(t.right, n)
	}
	t.update()
	return t
}

// split divides a treap into the leaves before a key and the others.
func split[J any](t *Leaf[J], k *Key) (before, behind *Leaf[J]) {
	if t == nil {
		return nil, nil
	}
	if t.Before(k) {
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
func removeLeaf[J any](t, n *Leaf[J]) *Leaf[J] {
	if t == n {
		return join(t.left, t.right)
	}
	if n.Before(&t.Key) {
		t.left = removeLeaf(t.left, n)
	} else {
		t.right = removeLeaf(t.right, n)
	}
	t.update()
	return t
}

// join returns the treap of two treaps, the first of which is before the second.
func join[J any](a, b *Leaf[J]) *Leaf[J] {
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
func (n *Leaf[J]) update() {
	all := n.Own
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

func (t *Tally) add(more *Tally) {
	t.Shapes |= more.Shapes
	t.MinGPUs = min(t.MinGPUs, more.MinGPUs)
	t.Held += more.Held
}

// updateShortest computes the shortest times from the leaves below.
func (n *Leaf[J]) updateShortest() {
	for i := range n.shortest {
		n.shortest[i] = NoTime
	}
	n.shortest[SizeClass(int(n.Own.MinGPUs))] = n.time.Time
	for _, below := range [2]*Leaf[J]{n.left, n.right} {
		if below != nil {
			for i := range n.shortest {
				n.shortest[i] = min(n.shortest[i], below.shortest[i])
			}
		}
	}
}

// heldGPUs returns the number of GPUs that the jobs at and below a leaf have.
func (n *Leaf[J]) heldGPUs() int {
	if n == nil {
		return 0
	}
	return int(n.all.Held)
}

// HeldBehind returns the number of GPUs that the jobs at and behind a key have.
func (n *Leaf[J]) HeldBehind(k *Key) (gpus int) {
	for n != nil {
		if n.Before(k) {
			n = n.right
		} else {
			gpus += int(n.Own.Held) + n.right.heldGPUs()
			n = n.left
		}
	}
	return gpus
}

// LastHolding returns the last job that, together with all jobs behind it, has the given number of
// GPUs; nil if all of them have fewer.
func (n *Leaf[J]) LastHolding(gpus int) *Leaf[J] {
	for n != nil {
		behind := n.right.heldGPUs()
		switch {
		case behind >= gpus:
			n = n.right
		case behind+int(n.Own.Held) >= gpus:
			return n
		default:
			gpus -= behind + int(n.Own.Held)
			n = n.left
		}
	}
	return nil
}

// Filter selects jobs of the queue.
type Filter struct {
	Skip     uint64        // shapes that found no place
	MaxGPUs  int           // the most GPUs that a job may need
	Limited  bool          // jobs must not run longer than they may; of these times,
	MaxTimes ShortestTimes // the largest by size class; negative if no job of the size may start
}

// MatchAll matches every job.
var MatchAll = Filter{MaxGPUs: math.MaxInt}

// mayMatchBelow reports whether a job at or below a leaf may match.
func (n *Leaf[J]) mayMatchBelow(w *Filter) bool {
	if !w.mayMatch(&n.all) {
		return false
	}
	if !w.Limited {
		return true
	}
	for i := range n.shortest {
		if n.shortest[i] != NoTime && n.shortest[i] <= w.MaxTimes[i] {
			return true
		}
	}
	return false
}

// mayMatch reports whether one of the aggregated jobs may have an allowed shape and size.
func (w *Filter) mayMatch(t *Tally) bool { return t.Shapes&^w.Skip != 0 && int(t.MinGPUs) <= w.MaxGPUs }

// matches reports whether a leaf's own job matches.
func (n *Leaf[J]) matches(w *Filter) bool {
	return w.mayMatch(&n.Own) && (!w.Limited || n.time.Time <= *n.time.Longest)
}

// First returns the first leaf behind a key that matches the filter.
func (n *Leaf[J]) First(after *Key, w *Filter) *Leaf[J] {
	if n == nil || !n.mayMatchBelow(w) {
		return nil
	}
	if after != nil && !after.Before(&n.Key) {
		return n.right.First(after, w)
	}
	if found := n.left.First(after, w); found != nil {
		return found
	}
	if n.matches(w) {
		return n
	}
	return n.right.First(nil, w)
}

// LastBefore returns the last job before a key; the last of all if the key is nil.
func (n *Leaf[J]) LastBefore(k *Key) *Leaf[J] {
	var found *Leaf[J]
	for n != nil {
		if k == nil || n.Before(k) {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// Last returns the last job for which a condition holds that also holds for all jobs before it.
func (n *Leaf[J]) Last(holds func(J) bool) (found *Leaf[J]) {
	for n != nil {
		if holds(n.Job) {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// Each calls yield for each job in order, and reports whether none returned false.
func (n *Leaf[J]) Each(yield func(J) bool) bool {
	return n == nil || n.left.Each(yield) && yield(n.Job) && n.right.Each(yield)
}

// mixHash is a bijection without visible pattern (the finalizer of splitmix64).
func mixHash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
