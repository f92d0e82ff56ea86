package spread

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// random returns pipelines of random cuts, on nodes of random machines.
func random(r *rand.Rand) *Assignment {
	a := &Assignment{Layers: 4 + r.IntN(5)}
	for range 2 + r.IntN(2) {
		a.Needs = append(a.Needs, cut(r, a.Layers, 1+r.IntN(3))...)
	}
	machines := 2 + r.IntN(3)
	for range len(a.Needs) + r.IntN(2) {
		a.Machines = append(a.Machines, r.IntN(machines))
	}
	slices.Sort(a.Machines)
	a.Want = min(2+r.IntN(2), len(slices.Compact(slices.Clone(a.Machines))))
	return a
}

// cut cuts layers into stages.
func cut(r *rand.Rand, layers, stages int) (needs [][][2]int) {
	cuts := []int{0, layers}
	for _, at := range r.Perm(layers - 1)[:stages-1] {
		cuts = append(cuts, at+1)
	}
	slices.Sort(cuts)
	for i := range stages {
		needs = append(needs, [][2]int{{cuts[i], cuts[i+1]}})
	}
	return needs
}

// lacking counts by the definition: for each layer, how many of the wanted machines do not have it.
func lacking(a *Assignment, nodes []int) (missing int) {
	for layer := range a.Layers {
		on := map[int]bool{}
		for place, needs := range a.Needs {
			if needs[0][0] <= layer && layer < needs[0][1] {
				on[a.Machines[nodes[place]]] = true
			}
		}
		missing += max(0, a.Want-len(on))
	}
	return missing
}

// fewest tries all ways to put machines on places.
func fewest(a *Assignment) int {
	best, free := a.Layers*a.Want, map[int]int{}
	for _, machine := range a.Machines {
		free[machine]++
	}
	on := make([]int, len(a.Machines))
	var try func(place int)
	try = func(place int) {
		if place == len(a.Needs) {
			best = min(best, lacking(a, on))
			return
		}
		tried := map[int]bool{}
		for node, machine := range a.Machines {
			if free[machine] > 0 && !tried[machine] {
				tried[machine] = true
				free[machine]--
				on[place] = node
				try(place + 1)
				free[machine]++
			}
		}
	}
	try(0)
	return best
}

// TestFewestLacking compares with all assignments, by the definition.
func TestFewestLacking(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rounds = 3000
	worse := 0
	for range rounds {
		a := random(r)
		first := make([]int, len(a.Machines))
		for i := range first {
			first[i] = i
		}
		nodes, missing := a.Improve()
		if sorted := slices.Sorted(slices.Values(nodes)); !slices.Equal(sorted, first) {
			t.Fatalf("%+v: the nodes are %v", a, nodes)
		}
		if got := lacking(a, nodes); got != missing || missing > lacking(a, first) {
			t.Fatalf("%+v: %v lacks %d, and said were %d; before %d", a, nodes, got, missing, lacking(a, first))
		}
		if missing > fewest(a) {
			worse++
		}
	}
	if worse > rounds/200 {
		t.Errorf("%d of %d lack more than they need", worse, rounds)
	}
}

// TestBytes: of exchanges that help equally, the one that sends the fewest bytes is made.
func TestBytes(t *testing.T) {
	// Two pipelines of two places, each on a machine of its own and one that both share.
	a := &Assignment{
		Needs:    [][][2]int{{{0, 1}}, {{1, 2}}, {{0, 1}}, {{1, 2}}},
		Machines: []int{0, 0, 0, 0, 1, 1, 1}, Layers: 2, Want: 2,
		Bytes: func(_, node int) int64 { return []int64{0, 0, 5, 7, 9, 3, 2}[node] },
	}
	nodes, missing := a.Improve()
	sent := int64(0)
	for place := range a.Needs {
		sent += a.Bytes(place, nodes[place])
	}
	if missing != 0 || sent != 0+0+2+3 {
		t.Errorf("%v lacks %d, and sends %d bytes", nodes, missing, sent)
	}
}
