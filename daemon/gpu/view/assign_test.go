package view

import (
	"errors"
	"maps"
	"slices"
	"testing"
)

func TestAssign(t *testing.T) {
	const used, unused = true, false
	for _, test := range []struct {
		name   string
		seen   []Seen
		had    []int
		wanted []int
		count  int
		want   map[int]int
	}{
		{"the only one", []Seen{{0, used}}, nil, []int{3}, 4, map[int]int{0: 3}},
		{"all, in the program's order", []Seen{{3, used}, {1, used}}, nil, []int{0, 2}, 4, map[int]int{3: 0, 1: 2}},
		{"one of those that it saw", []Seen{{0, used}, {1, unused}}, nil, []int{1}, 2, map[int]int{0: 1, 1: 0}},
		{"the second one is used", []Seen{{0, unused}, {1, used}}, nil, []int{0}, 2, map[int]int{1: 0, 0: 1}},
		{"what is not used stays", []Seen{{0, used}, {1, unused}, {2, unused}}, nil, []int{3}, 4, map[int]int{0: 3, 1: 1, 2: 2}},
		{"to where it was", []Seen{{0, used}, {1, unused}}, nil, []int{0}, 2, map[int]int{0: 0, 1: 1}},
		{"from a larger machine", []Seen{{6, used}, {7, unused}}, nil, []int{1}, 2, map[int]int{6: 1, 7: 0}},
		{"more than it saw", []Seen{{5, used}}, nil, []int{2, 3}, 4, map[int]int{5: 2}},
		{"none is used", []Seen{{0, unused}, {1, unused}}, nil, []int{1}, 2, map[int]int{0: 1, 1: 0}},
		{"no GPU", nil, nil, []int{1}, 2, map[int]int{}},
		{"what it had", nil, []int{0, 1}, []int{2, 3}, 4, map[int]int{0: 2, 1: 3}},
		{"what it had, not all seen", []Seen{{1, used}}, []int{0, 1}, []int{2, 3}, 4, map[int]int{0: 2, 1: 3}},
		{"seen and not given", []Seen{{2, used}}, []int{0}, []int{2}, 4, map[int]int{0: 2, 2: 0}},
	} {
		got, err := Assign(test.seen, test.had, test.wanted, test.count)
		if err != nil || !maps.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v, want %v", test.name, got, err, test.want)
		}
	}
	for name, bad := range map[string]struct {
		seen   []Seen
		had    []int
		wanted []int
		count  int
	}{
		"not there":        {[]Seen{{0, used}}, nil, []int{4}, 4},
		"none is left":     {[]Seen{{2, used}}, []int{0, 1}, []int{0, 1}, 2},
		"had twice":        {nil, []int{1, 1}, []int{2, 3}, 4},
		"had more":         {nil, []int{0, 1}, []int{2}, 4},
		"negative":         {[]Seen{{0, used}}, nil, []int{-1}, 4},
		"twice":            {[]Seen{{0, used}, {1, used}}, nil, []int{2, 2}, 4},
		"too few":          {[]Seen{{0, used}, {1, used}, {2, unused}}, nil, []int{2}, 4},
		"too small for it": {[]Seen{{0, used}, {1, unused}, {2, unused}}, nil, []int{0}, 2},
	} {
		if got, err := Assign(bad.seen, bad.had, bad.wanted, bad.count); !errors.Is(err, ErrAssignment) {
			t.Errorf("%s: got %v, %v, want an error", name, got, err)
		}
	}
}

// TestAssignIsInjective: no two GPUs of the programs become the same one, whatever is wanted.
func TestAssignIsInjective(t *testing.T) {
	const count = 4
	for mask := range 1 << (2 * count) {
		var seen []Seen
		for i := range count {
			if mask>>i&1 == 1 {
				seen = append(seen, Seen{Ordinal: i + mask>>7, Used: mask>>(count+i)&1 == 1})
			}
		}
		for _, wanted := range [][]int{{0}, {3}, {1, 0}, {3, 2, 1}, {2, 3, 0, 1}} {
			got, err := Assign(seen, nil, wanted, count)
			if err != nil {
				continue
			}
			places := slices.Sorted(maps.Values(got))
			if len(places) != len(seen) || len(slices.Compact(slices.Clone(places))) != len(seen) ||
				len(places) > 0 && (places[0] < 0 || places[len(places)-1] >= count) {
				t.Fatalf("%v become %v by %v", seen, got, wanted)
			}
		}
	}
}
