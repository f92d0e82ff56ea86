package view

import (
	"maps"
	"slices"
	"testing"
)

func TestVisibleAfterMoves(t *testing.T) {
	four := machine()
	for _, test := range []struct {
		name  string
		moved Renumbered
		value string
		set   bool
		want  []int
	}{
		{"none", nil, "2,1", true, []int{2, 1}},
		{"all, none moved", nil, "", false, []int{0, 1, 2, 3}},
		{"hidden", Renumbered{0: 1}, "", true, []int{}},
		{"moved", Renumbered{0: 3}, "0", true, []int{3}},
		{"the other way", Renumbered{0: 3}, "3,0", true, []int{0, 3}},
		{"all", Renumbered{0: 3}, "", false, []int{3, 1, 2, 0}},
		{"from a larger machine", Renumbered{6: 1, 7: 0}, "7,6", true, []int{0, 1}},
		{"what had no place", Renumbered{6: 1, 7: 0}, "7,5", true, []int{0}},
		{"by its UUID", Renumbered{0: 3}, "GPU-8932f937", true, []int{3}},
		{"no such GPU", Renumbered{0: 3}, "4", true, []int{}},
	} {
		if got := test.moved.Visible(test.value, test.set, four); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// TestVisibleIsInjective: whatever was moved, no GPU is seen twice, and none that does not exist.
func TestVisibleIsInjective(t *testing.T) {
	four := machine()
	for _, moved := range permutations([]int{0, 1, 2, 5}) {
		r := Renumbered{}
		for i, ordinal := range []int{3, 0, 1, 2}[:len(moved)] {
			r[moved[i]] = ordinal
		}
		for _, each := range []Renumbered{r, {moved[0]: 2}, {moved[0]: 2, moved[1]: 1}} {
			got := slices.Sorted(slices.Values(each.Visible("", false, four)))
			if !slices.Equal(got, slices.Compact(slices.Clone(got))) || got[0] < 0 || got[len(got)-1] > 3 {
				t.Errorf("%v: all GPUs are %v", each, got)
			}
		}
	}
}

// permutations returns all orders of numbers.
func permutations(of []int) (all [][]int) {
	if len(of) == 0 {
		return [][]int{nil}
	}
	for i := range of {
		rest := slices.Delete(slices.Clone(of), i, i+1)
		for _, each := range permutations(rest) {
			all = append(all, append([]int{of[i]}, each...))
		}
	}
	return all
}

func TestSeveralMoves(t *testing.T) {
	for _, test := range []struct {
		name  string
		moves []map[int]int
		want  Renumbered
	}{
		{"none", nil, Renumbered{}},
		{"one", []map[int]int{{0: 1}}, Renumbered{0: 1}},
		{"on and on", []map[int]int{{0: 1}, {1: 2}, {2: 3}}, Renumbered{0: 3}},
		{"and back", []map[int]int{{0: 1}, {1: 0}}, Renumbered{}},
		{"two", []map[int]int{{0: 1, 1: 0}, {1: 3, 0: 0}}, Renumbered{0: 3, 1: 0}},
		{"a place that was left", []map[int]int{{0: 1}, {1: 2}, {2: 0}}, Renumbered{}},
		{"not moved again", []map[int]int{{0: 1}, nil}, Renumbered{0: 1}},
	} {
		got := Renumbered{}
		for _, moved := range test.moves {
			got = got.Then(moved)
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
