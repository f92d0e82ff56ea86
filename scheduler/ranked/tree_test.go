package ranked

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// entry is a job of the reference, a sorted slice.
type entry struct {
	leaf    *Leaf[int]
	own     Tally
	left    time.Duration
	longest time.Duration
}

// TestTree compares a tree in which random jobs come and go with a sorted slice.
func TestTree(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 0))
	tree := Tree[int]{TrackTimes: true}
	var all []*entry
	for id := range 3000 {
		if len(all) > 0 && draw.IntN(5) < 2 {
			at := draw.IntN(len(all))
			tree.Remove(all[at].leaf)
			all = slices.Delete(all, at, at+1)
		} else {
			all = append(all, add(&tree, draw, id))
			slices.SortFunc(all, func(a, b *entry) int {
				return cmp.Or(cmp.Compare(a.leaf.Value, b.leaf.Value), cmp.Compare(a.leaf.ID, b.leaf.ID))
			})
		}
		if tree.Size != len(all) {
			t.Fatalf("%d jobs, want %d", tree.Size, len(all))
		}
		compareHeld(t, &tree, draw, all)
		compareFirst(t, &tree, draw, all)
	}
}

// add inserts a random job.
func add(tree *Tree[int], draw *rand.Rand, id int) *entry {
	e := &entry{
		own:  Tally{Shapes: 1 << draw.IntN(4), MinGPUs: int32(1 + draw.IntN(8)), Held: int32(draw.IntN(5))},
		left: time.Duration(draw.IntN(100)), longest: time.Duration(draw.IntN(100)),
	}
	k := Key{Value: float64(draw.IntN(20)), ID: int64(id)}
	e.leaf = tree.Add(new(Leaf[int]), k, id, e.own, Remaining{e.left, &e.longest})
	return e
}

// compareHeld compares what the jobs behind a random one hold, and the job before it.
func compareHeld(t *testing.T, tree *Tree[int], draw *rand.Rand, all []*entry) {
	t.Helper()
	if len(all) == 0 {
		return
	}
	at := draw.IntN(len(all))
	held := 0
	for _, e := range all[at:] {
		held += int(e.own.Held)
	}
	if got := tree.Root.HeldBehind(&all[at].leaf.Key); got != held {
		t.Fatalf("%d GPUs are held behind job %d, want %d", got, all[at].leaf.Job, held)
	}
	if before := tree.Root.LastBefore(&all[at].leaf.Key); (before == nil) != (at == 0) || at > 0 && before != all[at-1].leaf {
		t.Fatalf("before job %d is %v", all[at].leaf.Job, before)
	}
	want := at
	for held > 0 && all[want].own.Held == 0 {
		want++
	}
	if got := tree.Root.LastHolding(held); held > 0 && got != all[want].leaf {
		t.Fatalf("the last job with %d GPUs at and behind it is %v, want %d", held, got, all[want].leaf.Job)
	}
}

// compareFirst compares the first job behind a random one that matches a random filter.
func compareFirst(t *testing.T, tree *Tree[int], draw *rand.Rand, all []*entry) {
	t.Helper()
	w := MatchAll
	w.Skip = uint64(draw.IntN(16))
	if draw.IntN(2) == 0 {
		w.MaxGPUs = draw.IntN(9)
	}
	if w.Limited = draw.IntN(2) == 0; w.Limited {
		for i := range w.MaxTimes {
			w.MaxTimes[i] = 100
		}
	}
	from, after := 0, (*Key)(nil)
	if len(all) > 0 && draw.IntN(2) == 0 {
		from = draw.IntN(len(all))
		after = &all[from].leaf.Key
		from++
	}
	var want *Leaf[int]
	for _, e := range all[from:] {
		if e.own.Shapes&^w.Skip != 0 && int(e.own.MinGPUs) <= w.MaxGPUs && (!w.Limited || e.left <= e.longest) {
			want = e.leaf
			break
		}
	}
	if got := tree.Root.First(after, &w); got != want {
		t.Fatalf("filter %+v: got %v, want %v", w, got, want)
	}
}
