package ranked

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// entry is a job of the reference, a sorted slice.
type entry struct {
	leaf    *Leaf[int]
	need    Need
	own     Content
	longest time.Duration
}

// newEntry returns a random job; each is, by drift, behind the one before it.
func newEntry(draw *rand.Rand, id int, drift float64) *entry {
	e := &entry{
		leaf: new(Leaf[int]), need: Need{Shape: 1 << draw.IntN(4), MinGPUs: 1 + draw.IntN(8)},
		longest: time.Duration(draw.IntN(100)),
	}
	value := float64(draw.IntN(20)-10) + math.Round(drift*float64(id))
	e.leaf.Key = Key{Value: value, At: time.Duration(draw.IntN(3)), ID: int64(id)}
	e.own = Content{Held: draw.IntN(5), Time: time.Duration(draw.IntN(100)), Longest: &e.longest}
	return e
}

// compareEntries orders entries as a tree orders their jobs.
func compareEntries(a, b *entry) int {
	return cmp.Or(
		cmp.Compare(a.leaf.Value, b.leaf.Value), cmp.Compare(a.leaf.At, b.leaf.At), cmp.Compare(a.leaf.ID, b.leaf.ID),
	)
}

// comeAndGo lets random jobs come and go until there are many, then until there are none, and then
// come again. It calls check after each step, with all that are there in order.
func comeAndGo(draw *rand.Rand, drift float64, add, remove func(*entry), check func([]*entry)) {
	var all []*entry
	for id := range 6000 {
		if removals := []int{2, 4, 1}[id/2000]; len(all) > 0 && draw.IntN(5) < removals {
			at := draw.IntN(len(all))
			remove(all[at])
			all = slices.Delete(all, at, at+1)
		} else {
			e := newEntry(draw, id, drift)
			at, _ := slices.BinarySearchFunc(all, e, compareEntries)
			all = slices.Insert(all, at, e)
			add(e)
		}
		check(all)
	}
}

// TestTree compares a tree with a sorted slice.
func TestTree(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 0))
	tree := Tree[int]{Sums: true}
	comeAndGo(
		draw, 0,
		func(e *entry) { tree.Add(e.leaf, e.leaf.Key, int(e.leaf.ID), e.own) },
		func(e *entry) { tree.Remove(e.leaf) },
		func(all []*entry) {
			if tree.Size != len(all) {
				t.Fatalf("%d jobs, want %d", tree.Size, len(all))
			}
			compareOrder(t, tree.Each, all)
			compareHeld(t, &tree, draw, all)
			compareLast(t, &tree, draw, all)
		},
	)
}

// compareOrder compares all jobs in order.
func compareOrder(t *testing.T, each func(func(int) bool) bool, all []*entry) {
	t.Helper()
	at := 0
	stopped := !each(func(job int) bool {
		if job != int(all[at].leaf.ID) {
			t.Fatalf("job %d is at %d, want %d", job, at, all[at].leaf.ID)
		}
		at++
		return at < len(all)
	})
	if at != len(all) || stopped != (len(all) > 0) {
		t.Fatalf("%d of %d jobs are listed; stopped: %v", at, len(all), stopped)
	}
}

// compareHeld compares what the jobs behind a random one hold, and the jobs around it.
func compareHeld(t *testing.T, tree *Tree[int], draw *rand.Rand, all []*entry) {
	t.Helper()
	if len(all) == 0 {
		return
	}
	at := draw.IntN(len(all))
	k, held := &all[at].leaf.Key, 0
	for _, e := range all[at:] {
		held += e.own.Held
	}
	if got := tree.HeldBehind(k); got != held {
		t.Fatalf("%d GPUs are held behind job %d, want %d", got, k.ID, held)
	}
	if before := tree.LastBefore(k); (before == nil) != (at == 0) || at > 0 && before != all[at-1].leaf {
		t.Fatalf("before job %d is %v", k.ID, before)
	}
	end := at+1 == len(all)
	if after := tree.firstAfter(k); (after == nil) != end || !end && after != all[at+1].leaf {
		t.Fatalf("behind job %d is %v", k.ID, after)
	}
	want := at
	for held > 0 && all[want].own.Held == 0 {
		want++
	}
	if got := tree.LastHolding(held); held > 0 && got != all[want].leaf {
		t.Fatalf("the last job with %d GPUs at and behind it is %v, want %d", held, got, all[want].leaf.ID)
	}
}

// compareLast compares the last one of a random number of the first jobs.
func compareLast(t *testing.T, tree *Tree[int], draw *rand.Rand, all []*entry) {
	t.Helper()
	part := draw.IntN(len(all) + 1)
	inside := map[int]bool{}
	for _, e := range all[:part] {
		inside[int(e.leaf.ID)] = true
	}
	got := tree.Last(func(job int) bool { return inside[job] })
	if (got == nil) != (part == 0) || part > 0 && got != all[part-1].leaf {
		t.Fatalf("the last of the first %d jobs is %v", part, got)
	}
}
