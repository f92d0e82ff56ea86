package ranked

import "time"

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

// Leaf is a job in a tree. Everything that a search reads is in the leaves themselves: reading the
// job would cost as much as the step to the next leaf.
type Leaf[J any] struct {
	// Of a tree.
	left, right, above *Leaf[J]
	Own                Content
	held               int           // sum of the GPUs of the job and all jobs below
	shortest           time.Duration // and the least remaining time of them

	Key
	Job   J
	heap  uint64   // a hash of the job's number: the tree's shape depends on its contents, not on their history
	lane  *lane[J] // nil outside of a Queue
	place int      // in the run of the lane, plus one; 0 if it is not there
}

// Content is what is added up over jobs.
type Content struct {
	Held    int            // the GPUs that a job has
	Time    time.Duration  // how long it will run,
	Longest *time.Duration // and how long it may if it starts now
}

// Tree is an ordered set of jobs. Its operations take O(log n).
type Tree[J any] struct {
	Size int
	Sums bool // sums of GPUs and least times are known; they take most of the time of a change

	root *Leaf[J]
}

// Add inserts a job, in the memory of n, which must not be in a tree.
func (t *Tree[J]) Add(n *Leaf[J], k Key, job J, own Content) *Leaf[J] {
	*n = Leaf[J]{Key: k, Job: job, heap: mixHash(uint64(k.ID)), Own: own}
	to := &t.root
	for *to != nil && n.heap <= (*to).heap {
		n.above = *to
		to = n.above.toward(k.Before(&n.above.Key))
	}
	below := *to
	*to = n
	t.split(n, below)
	t.Size++
	return n
}

// toward returns where the leaves on one side are.
func (n *Leaf[J]) toward(left bool) **Leaf[J] {
	if left {
		return &n.left
	}
	return &n.right
}

// split divides a treap into the leaves before n and those behind, and puts them below n.
func (t *Tree[J]) split(n, below *Leaf[J]) {
	before, behind := n, n
	toBefore, toBehind := &n.left, &n.right
	for below != nil {
		if below.Before(&n.Key) {
			*toBefore, below.above = below, before
			before, toBefore = below, &below.right
			below = below.right
		} else {
			*toBehind, below.above = below, behind
			behind, toBehind = below, &below.left
			below = below.left
		}
	}
	*toBefore, *toBehind = nil, nil
	if t.Sums {
		before.update(n)
		behind.update(n)
		n.update(nil)
	}
}

// Remove removes a leaf of the tree.
func (t *Tree[J]) Remove(n *Leaf[J]) {
	to, above := &t.root, n.above
	if above != nil {
		to = above.toward(above.left == n)
	}
	a, b := n.left, n.right
	for a != nil && b != nil {
		if a.heap > b.heap {
			*to, a.above = a, above
			above, to = a, &a.right
			a = a.right
		} else {
			*to, b.above = b, above
			above, to = b, &b.left
			b = b.left
		}
	}
	if a == nil {
		a = b
	}
	if *to = a; a != nil {
		a.above = above
	}
	if t.Sums {
		above.update(nil)
	}
	n.left, n.right, n.above = nil, nil, nil
	t.Size--
}

// update computes the sums of a leaf and of those above it, up to a last one, which is left out.
func (n *Leaf[J]) update(last *Leaf[J]) {
	for ; n != last; n = n.above {
		n.held, n.shortest = n.Own.Held, n.Own.Time
		if l := n.left; l != nil {
			n.held, n.shortest = n.held+l.held, min(n.shortest, l.shortest)
		}
		if r := n.right; r != nil {
			n.held, n.shortest = n.held+r.held, min(n.shortest, r.shortest)
		}
	}
}

// heldGPUs returns the number of GPUs that the jobs at and below a leaf have.
func (n *Leaf[J]) heldGPUs() int {
	if n == nil {
		return 0
	}
	return n.held
}

// Held returns the number of GPUs that all jobs have.
func (t *Tree[J]) Held() int { return t.root.heldGPUs() }

// HeldBehind returns the number of GPUs that the jobs at and behind a key have.
func (t *Tree[J]) HeldBehind(k *Key) (gpus int) {
	for n := t.root; n != nil; {
		if n.Before(k) {
			n = n.right
		} else {
			gpus += n.Own.Held + n.right.heldGPUs()
			n = n.left
		}
	}
	return gpus
}

// LastHolding returns the last job that, together with all jobs behind it, has the given number of
// GPUs; nil if all of them have fewer.
func (t *Tree[J]) LastHolding(gpus int) *Leaf[J] {
	for n := t.root; n != nil; {
		behind := n.right.heldGPUs()
		switch {
		case behind >= gpus:
			n = n.right
		case behind+n.Own.Held >= gpus:
			return n
		default:
			gpus -= behind + n.Own.Held
			n = n.left
		}
	}
	return nil
}

// LastBefore returns the last job before a key; the last of all if the key is nil.
func (t *Tree[J]) LastBefore(k *Key) (found *Leaf[J]) {
	for n := t.root; n != nil; {
		if k == nil || n.Before(k) {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// firstAfter returns the first leaf behind a key.
func (t *Tree[J]) firstAfter(k *Key) (found *Leaf[J]) {
	for n := t.root; n != nil; {
		if k.Before(&n.Key) {
			found, n = n, n.left
		} else {
			n = n.right
		}
	}
	return found
}

// Last returns the last job for which a condition holds that also holds for all jobs before it.
func (t *Tree[J]) Last(holds func(J) bool) (found *Leaf[J]) {
	for n := t.root; n != nil; {
		if holds(n.Job) {
			found, n = n, n.right
		} else {
			n = n.left
		}
	}
	return found
}

// next returns the leaf behind n.
func (n *Leaf[J]) next() *Leaf[J] {
	if n.right != nil {
		for n = n.right; n.left != nil; {
			n = n.left
		}
		return n
	}
	for n.above != nil && n.above.right == n {
		n = n.above
	}
	return n.above
}

// firstShort returns the first leaf at or below n, behind a key unless that is nil, whose job runs
// no longer than it may. No job may run longer than most.
func (n *Leaf[J]) firstShort(after *Key, most time.Duration) *Leaf[J] {
	if n == nil || n.shortest > most {
		return nil
	}
	if after != nil && !after.Before(&n.Key) {
		return n.right.firstShort(after, most)
	}
	if found := n.left.firstShort(after, most); found != nil {
		return found
	}
	if n.Own.Time <= *n.Own.Longest {
		return n
	}
	return n.right.firstShort(nil, most)
}

// Each calls yield for each job in order, and reports whether none returned false.
func (t *Tree[J]) Each(yield func(J) bool) bool { return t.root.each(yield) }

// each is Each for the jobs at and below a leaf.
func (n *Leaf[J]) each(yield func(J) bool) bool {
	return n == nil || n.left.each(yield) && yield(n.Job) && n.right.each(yield)
}

// mixHash is a bijection without visible pattern (the finalizer of splitmix64).
func mixHash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
