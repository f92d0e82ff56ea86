package spread

import (
	"cmp"
	"slices"
)

// Assignment is which node is at which place.
type Assignment struct {
	Needs    [][][2]int // the layers of each place, as runs
	Machines []int      // of each node: first of those at the places, in order, then of the spare ones
	Layers   int
	Want     int // machines that each layer should be on
	// Bytes returns what a node must be sent for a place; nil: nothing.
	Bytes func(place, node int) int64
}

// maxEffort bounds the search, in layers that are moved from one machine to another. It takes some
// hundred milliseconds, and a hundred nodes need far less.
const maxEffort = 30_000_000

// Improve returns a better assignment: the number of the node at each place, then those of the
// spare ones; and how many copies of layers are missing on further machines.
func (a *Assignment) Improve() (nodes []int, missing int) {
	s := newSearch(a)
	for s.missing > 0 && s.effort > 0 && (s.pass() || s.two()) {
	}
	return s.nodes, s.missing
}

// search is an assignment that changes.
type search struct {
	*Assignment
	nodes   []int   // at each place, then the spare ones
	copies  [][]int // of each layer, on each machine
	on      []int   // on how many machines each layer is
	missing int     // how many machines layers lack
	effort  int
}

func newSearch(a *Assignment) *search {
	s := &search{Assignment: a, on: make([]int, a.Layers), missing: a.Layers * a.Want, effort: maxEffort}
	machines := slices.Max(append([]int{-1}, a.Machines...)) + 1
	for range a.Layers {
		s.copies = append(s.copies, make([]int, machines))
	}
	for node, machine := range a.Machines {
		s.nodes = append(s.nodes, node)
		s.add(s.needs(node), machine)
	}
	return s
}

// needs returns the layers of a place; a spare node has none.
func (s *search) needs(place int) [][2]int {
	if place < len(s.Needs) {
		return s.Needs[place]
	}
	return nil
}

// add adds copies of layers on a machine.
func (s *search) add(layers [][2]int, machine int) {
	for _, run := range layers {
		s.effort -= run[1] - run[0]
		for layer := run[0]; layer < run[1]; layer++ {
			if s.copies[layer][machine]++; s.copies[layer][machine] > 1 {
				continue
			}
			if s.on[layer]++; s.on[layer] <= s.Want {
				s.missing--
			}
		}
	}
}

// remove is the opposite of add.
func (s *search) remove(layers [][2]int, machine int) {
	for _, run := range layers {
		s.effort -= run[1] - run[0]
		for layer := run[0]; layer < run[1]; layer++ {
			if s.copies[layer][machine]--; s.copies[layer][machine] > 0 {
				continue
			}
			if s.on[layer]--; s.on[layer] < s.Want {
				s.missing++
			}
		}
	}
}

// exchange exchanges the nodes of two places.
func (s *search) exchange(a, b int) {
	s.move(a, b)
	s.nodes[a], s.nodes[b] = s.nodes[b], s.nodes[a]
}

// move moves the copies as if two places exchanged their nodes.
func (s *search) move(a, b int) {
	of, other := s.Machines[s.nodes[a]], s.Machines[s.nodes[b]]
	s.remove(s.needs(a), of)
	s.remove(s.needs(b), other)
	s.add(s.needs(a), other)
	s.add(s.needs(b), of)
}

// exchange is of the nodes of two places.
type exchange struct {
	place, other int
	missing      int // how many machines are lacking after it
	bytes        int64
}

// pass makes the best exchange, and all others that still help as much as they did before it. It
// reports whether there was one.
func (s *search) pass() (improved bool) {
	var all []exchange
	for place := range s.Needs {
		if e, found := s.best(place, s.missing); found {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b exchange) int {
		return cmp.Or(cmp.Compare(a.missing, b.missing), cmp.Compare(a.bytes, b.bytes))
	})
	before := s.missing
	for _, e := range all {
		if s.missing-s.after(e.place, e.other) >= before-e.missing {
			s.exchange(e.place, e.other)
			improved = true
		}
	}
	return improved
}

// two makes two exchanges that are better than none, though neither is by itself. It reports
// whether there were two.
func (s *search) two() bool {
	before := s.missing
	for place := range s.Needs {
		if !s.short(place) {
			continue
		}
		for other := range s.nodes {
			s.exchange(place, other)
			for next := range s.Needs {
				if e, found := s.best(next, before); found {
					s.exchange(e.place, e.other)
					return true
				}
			}
			s.exchange(place, other)
			if s.effort < 0 {
				return false
			}
		}
	}
	return false
}

// short reports whether a place has a layer on too few machines.
func (s *search) short(place int) bool {
	for _, run := range s.Needs[place] {
		for layer := run[0]; layer < run[1]; layer++ {
			if s.on[layer] < s.Want {
				return true
			}
		}
	}
	return false
}

// best returns the exchange of a place with a layer on too few machines after which the fewest
// machines are lacking, fewer than so many, and the fewest bytes are sent.
func (s *search) best(place, than int) (best exchange, found bool) {
	if s.effort < 0 || !s.short(place) {
		return best, false
	}
	for other := range s.nodes {
		if s.Machines[s.nodes[place]] == s.Machines[s.nodes[other]] {
			continue
		}
		e := exchange{place: place, other: other, missing: s.after(place, other)}
		if e.missing >= than || found && e.missing > best.missing {
			continue
		}
		if e.bytes = s.bytes(place, other); !found || e.missing < best.missing || e.bytes < best.bytes {
			best, found = e, true
		}
	}
	return best, found
}

// after returns how many machines would be lacking after an exchange.
func (s *search) after(a, b int) int {
	s.move(a, b)
	missing := s.missing
	s.nodes[a], s.nodes[b] = s.nodes[b], s.nodes[a]
	s.move(a, b)
	s.nodes[a], s.nodes[b] = s.nodes[b], s.nodes[a]
	return missing
}

// bytes returns how much more would be sent after an exchange.
func (s *search) bytes(a, b int) (more int64) {
	if s.Bytes == nil {
		return 0
	}
	for _, each := range [][2]int{{a, b}, {b, a}} {
		if place, other := each[0], each[1]; place < len(s.Needs) {
			more += s.Bytes(place, s.nodes[other]) - s.Bytes(place, s.nodes[place])
		}
	}
	return more
}
