package view

import (
	"maps"
	"math/rand/v2"
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
		{"hidden", Renumbered{0: 1, 1: 0}, "", true, []int{}},
		{"moved", Renumbered{0: 3, 3: 0}, "0", true, []int{3}},
		{"the other way", Renumbered{0: 3, 3: 0}, "3,0", true, []int{0, 3}},
		{"all", Renumbered{0: 3, 3: 0}, "", false, []int{3, 1, 2, 0}},
		{"from a larger machine", Renumbered{6: 1, 7: 0, 0: -1, 1: -1}, "7,6", true, []int{0, 1}},
		{"what has no GPU", Renumbered{6: 1, 7: 0, 0: -1, 1: -1}, "7,1,6", true, []int{0}},
		{"by its UUID", Renumbered{0: 3, 3: 0}, "GPU-8932f937", true, []int{3}},
		{"no such GPU", Renumbered{0: 3, 3: 0}, "4", true, []int{}},
	} {
		if got := test.moved.Visible(test.value, test.set, four); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestSeveralMoves(t *testing.T) {
	for _, test := range []struct {
		name  string
		moves []map[int]int
		want  Renumbered
	}{
		{"none", nil, Renumbered{}},
		{"one", []map[int]int{{0: 1}}, Renumbered{0: 1, 1: 0}},
		{"on and on", []map[int]int{{0: 1}, {1: 2}, {2: 3}}, Renumbered{0: 3, 1: 0, 2: 1, 3: 2}},
		{"and back", []map[int]int{{0: 1}, {1: 0}}, Renumbered{}},
		{"two", []map[int]int{{0: 1, 1: 0}, {1: 3, 0: 0}}, Renumbered{0: 3, 1: 0, 3: 1}},
		{"into the place of another one", []map[int]int{{0: 2, 1: 3}, {2: 3}}, Renumbered{0: 3, 1: 2, 2: 0, 3: 1}},
		{"what was displaced", []map[int]int{{0: 1}, {1: 2, 0: 3}}, Renumbered{0: 2, 1: 3, 2: 0, 3: 1}},
		{"not moved again", []map[int]int{{0: 1}, nil}, Renumbered{0: 1, 1: 0}},
	} {
		got := Renumbered{}
		for _, moved := range test.moves {
			got = got.After(moved, 4)
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// TestFollowsItsGPUs plays random moves between machines of different sizes, and follows each GPU:
// the number by which the tree has begun to use it must name it all the time, and no other GPU.
func TestFollowsItsGPUs(t *testing.T) {
	for seed := range uint64(2000) {
		draw := rand.New(rand.NewPCG(seed, 1))
		count := 1 + draw.IntN(6)
		r, at := Renumbered{}, map[int]int{} // where the GPU with a number is
		for _, number := range draw.Perm(count)[:draw.IntN(count+1)] {
			at[number] = number
		}
		for range 4 {
			next := max(len(at), 1+draw.IntN(6))
			moved, free := map[int]int{}, draw.Perm(next)
			for i, number := range slices.Sorted(maps.Keys(at)) {
				moved[at[number]] = free[i]
				at[number] = free[i]
			}
			if r = r.After(moved, next); !r.Valid(6) {
				t.Fatalf("seed %d: %v is not valid", seed, r)
			}
			devices := slices.Repeat(machine(), 2)[:next]
			all := r.Visible("", false, devices)
			if sorted := slices.Sorted(slices.Values(all)); len(slices.Compact(sorted)) != len(all) {
				t.Fatalf("seed %d: %v: all GPUs are %v", seed, r, all)
			}
			for number, ordinal := range at {
				if got := r.Of(number); got != ordinal {
					t.Fatalf("seed %d: %v: number %d is GPU %d, want %d", seed, r, number, got, ordinal)
				}
			}
		}
	}
}

// TestInvalidNumbers: what an image must not say.
func TestInvalidNumbers(t *testing.T) {
	for _, r := range []Renumbered{{-1: 0}, {0: -2}, {0: 1}, {0: 1, 2: 1, 1: 0}, {24: 0, 0: 24}, {0: 1 << 40}} {
		if r.Valid(24) {
			t.Errorf("%v is valid", r)
		}
	}
	for _, r := range []Renumbered{nil, {0: 1, 1: 0}, {6: 1, 7: 0, 0: -1, 1: -1}} {
		if !r.Valid(24) {
			t.Errorf("%v is not valid", r)
		}
	}
}
