package ranked

import (
	"slices"
	"sort"
)

// run is leaves in order, of which each new one is the last. Jobs that take turns come and go like
// this. Keys are beside each other, so that a search does not fetch the leaves from memory.
type run[J any] struct {
	all     []Entry[J]
	removed int // how many entries at the beginning have no leaf
	gaps    int // and how many behind the first one with a leaf
	shifted int // how many entries were dropped from the beginning
}

// Entry is a job in a queue, beside its key; removed ones have no leaf.
type Entry[J any] struct {
	Key
	Job  J
	leaf *Leaf[J]
}

// entry returns the entry of a leaf; the zero value for nil.
func (n *Leaf[J]) entry() (e Entry[J]) {
	if n != nil {
		e = Entry[J]{n.Key, n.Job, n}
	}
	return e
}

// earlier returns which of two entries is first; one without a leaf is none.
func earlier[J any](a, b *Entry[J]) *Entry[J] {
	if a.leaf == nil || b.leaf != nil && b.Before(&a.Key) {
		return b
	}
	return a
}

// follows reports whether a leaf of this key would be the last.
func (r *run[J]) follows(k *Key) bool {
	return len(r.all) == r.removed || r.all[len(r.all)-1].Before(k)
}

// add adds a leaf that is the last.
func (r *run[J]) add(n *Leaf[J]) {
	if len(r.all) == cap(r.all) && r.removed > len(r.all)/2 {
		r.all = slices.Delete(r.all, 0, r.removed)
		r.shifted, r.removed = r.shifted+r.removed, 0
	}
	r.all = append(r.all, n.entry())
	n.place = r.shifted + len(r.all)
}

// remove removes a leaf.
func (r *run[J]) remove(n *Leaf[J]) {
	at := n.place - 1 - r.shifted
	r.all[at], n.place = Entry[J]{Key: n.Key}, 0
	if at != r.removed {
		if r.gaps++; r.gaps > len(r.all)/2 {
			r.closeGaps()
		}
		return
	}
	for r.removed++; r.removed < len(r.all) && r.all[r.removed].leaf == nil; r.removed++ {
		r.gaps--
	}
}

// closeGaps drops all entries without a leaf.
func (r *run[J]) closeGaps() {
	r.all = slices.DeleteFunc(r.all, func(e Entry[J]) bool { return e.leaf == nil })
	r.removed, r.gaps, r.shifted = 0, 0, 0
	for i := range r.all {
		r.all[i].leaf.place = i + 1
	}
}

// first returns the first entry.
func (r *run[J]) first() Entry[J] { return r.from(r.removed) }

// next returns the entry behind a leaf of the run.
func (r *run[J]) next(n *Leaf[J]) Entry[J] { return r.from(n.place - r.shifted) }

// firstAfter returns the first entry behind a key.
func (r *run[J]) firstAfter(k *Key) Entry[J] {
	left := r.all[r.removed:]
	return r.from(r.removed + sort.Search(len(left), func(i int) bool { return k.Before(&left[i].Key) }))
}

// from returns the first entry with a leaf at an index or behind it; the zero value if there is
// none.
func (r *run[J]) from(at int) (e Entry[J]) {
	for ; at < len(r.all) && e.leaf == nil; at++ {
		e = r.all[at]
	}
	return e
}
