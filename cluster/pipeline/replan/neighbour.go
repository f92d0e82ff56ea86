package replan

import (
	"cmp"
	"slices"
)

// exchange is two pipelines of the best sizes that move nodes between each other: from are their
// options before it, to those after it.
type exchange struct {
	from, to [2]int
	bound    int64
}

// neighbour returns the sizes with the least bound that differ from the best ones by an exchange
// and are in time; nil if none is below the fewest bytes known. Where there are too many sizes to
// search all, one exchange after the other leads to good ones.
func (s *sizeSearch) neighbour() []int {
	exchanges := s.exchanges()
	slices.SortFunc(exchanges, func(a, b exchange) int {
		return cmp.Or(cmp.Compare(a.bound, b.bound), slices.Compare(a.from[:], b.from[:]), slices.Compare(a.to[:], b.to[:]))
	})
	for _, e := range exchanges {
		s.chosen = s.after(e)
		if s.effort -= len(s.chosen); s.effort < 0 {
			return nil
		}
		if s.inTime() {
			return slices.Clone(s.chosen)
		}
	}
	return nil
}

// after returns the best sizes after an exchange, sorted.
func (s *sizeSearch) after(e exchange) []int {
	sizes := slices.Clone(s.best)
	for k, option := range e.from {
		sizes[slices.Index(sizes, s.options[option].size)] = -s.options[e.to[k]].size
	}
	for i, size := range sizes {
		sizes[i] = max(size, -size)
	}
	slices.Sort(sizes)
	return sizes
}

// exchanges returns all exchanges of the best sizes with a bound below the fewest bytes.
func (s *sizeSearch) exchanges() (all []exchange) {
	optionOf, counts := s.optionOf(), countOf(s.best)
	sums := make([]int64, len(s.views))
	for k, v := range s.views {
		sums[k] = -v.owned
		for _, size := range s.best {
			sums[k] += v.values[optionOf[size]]
		}
	}
	for a, n := range counts {
		for b := a; b < len(counts); b++ {
			if n == 0 || counts[b] == 0 || a == b && n < 2 {
				continue
			}
			for c := max(s.plan.Smallest(), a+b-s.plan.Largest()); 2*c <= a+b; c++ {
				e := exchange{from: [2]int{optionOf[a], optionOf[b]}, to: [2]int{optionOf[c], optionOf[a+b-c]}}
				if c != a && e.to[0] >= 0 && e.to[1] >= 0 && s.boundOf(&e, sums) < s.bytes {
					all = append(all, e)
				}
			}
		}
	}
	return all
}

// optionOf returns the option of each size; -1 for none.
func (s *sizeSearch) optionOf() []int {
	options := slices.Repeat([]int{-1}, s.plan.Largest()+1)
	for i, o := range s.options {
		options[o.size] = i
	}
	return options
}

// boundOf computes the bound of an exchange from the sums of the best sizes.
func (s *sizeSearch) boundOf(e *exchange, sums []int64) int64 {
	s.effort -= len(s.views)
	for k, v := range s.views {
		e.bound = max(e.bound, sums[k]+v.values[e.to[0]]+v.values[e.to[1]]-v.values[e.from[0]]-v.values[e.from[1]])
	}
	return e.bound
}
