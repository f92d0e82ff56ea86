package copies

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// nodes returns nodes that take and keep copies.
func nodes(names ...string) (all []Node) {
	for _, name := range names {
		all = append(all, Node{Name: name, Keeps: true, Takes: true})
	}
	return all
}

// TestLook: each image is on as many nodes as it can be, and never ordered where it is or may not
// be.
func TestLook(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d", "e", "f"}
	some := func() (found []string) {
		for _, name := range names {
			if random.IntN(4) == 0 {
				found = append(found, name)
			}
		}
		return found
	}
	for range 2000 {
		k := Chooser{Peers: random.IntN(4)}
		var all []Node
		for _, name := range names {
			all = append(all, Node{Name: name, Keeps: random.IntN(4) > 0, Takes: random.IntN(4) > 0})
		}
		i := Image{Name: "i#1", Place: "i", Holders: some(), Avoid: some()}
		changed := k.Look([]Image{i}, all)
		safe, could, got := 0, 0, 0
		for _, n := range all {
			has, avoid := slices.Contains(i.Holders, n.Name), slices.Contains(i.Avoid, n.Name)
			switch {
			case has && n.Keeps:
				safe++
			case !has && !avoid && n.Keeps && n.Takes:
				could++
			}
			if ordered := k.Ordered(n.Name, "i#1"); ordered != (len(changed[n.Name]) == 1) {
				t.Fatalf("node %s: ordered %v, told %v", n.Name, ordered, changed)
			} else if ordered {
				got++
				if has || avoid || !n.Keeps || !n.Takes {
					t.Fatalf("%+v is ordered on %+v", i, n)
				}
			}
		}
		if want := min(max(0, k.Peers+1-safe), could); got != want || k.Enough(&i, all) != (want == 0) {
			t.Fatalf("%d copies of %+v on %+v with %d peers, want %d", got, i, all, k.Peers, want)
		}
		if again := k.Look([]Image{i}, all); len(again) > 0 {
			t.Fatalf("told again: %v", again)
		}
	}
}

// TestSamePlace: generations of an attempt go to the same node; those of many launches to all.
func TestSamePlace(t *testing.T) {
	k := Chooser{Peers: 1}
	all := nodes("a", "b", "c", "d", "e")
	used := map[string]int{}
	for launch := range 400 {
		var first map[string][]string
		for generation := range 3 {
			name := fmt.Sprintf("%d#%d", launch, generation)
			got := k.Look([]Image{{Name: name, Place: fmt.Sprint(launch), Holders: []string{"a"}}}, all)
			for node, images := range got {
				if len(images) == 0 {
					delete(got, node) // the last one is not wanted there any longer
				}
				got[node] = nil
			}
			if first == nil {
				first = got
			} else if !reflect.DeepEqual(got, first) {
				t.Fatalf("launch %d: generation %d goes to %v, the first one to %v", launch, generation, got, first)
			}
			for node := range got {
				used[node]++
			}
		}
		k = Chooser{Peers: 1}
	}
	for _, n := range all[1:] {
		if share := used[n.Name]; share < 200 || share > 400 {
			t.Errorf("node %s gets %d of 1200", n.Name, share)
		}
	}
}

// TestForget: a node whose agent has attached again is told again.
func TestForget(t *testing.T) {
	k := Chooser{Peers: 1}
	images := []Image{{Name: "i#1", Place: "i", Holders: []string{"a"}}}
	want := map[string][]string{"b": {"i#1"}}
	for range 2 {
		if got := k.Look(images, nodes("a", "b")); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v", got)
		}
		k.Forget("b")
	}
	k.Look(images, nodes("a", "b"))
	if got := k.Look(nil, nodes("a", "b")); len(got) != 1 || len(got["b"]) != 0 {
		t.Errorf("what is not wanted any longer: %v", got)
	}
}
