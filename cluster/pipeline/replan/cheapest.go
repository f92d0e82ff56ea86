package replan

import "math"

// cheapest solves a transportation problem: it returns how much each row gets from each column, so
// that all demands are met, no supply is exceeded, and the sum of the costs is the least. The
// supplies are at least as large as the demands.
//
// Demands are met one row after the other, each along the shortest augmenting paths in the costs
// reduced by the potentials.
func cheapest(costs [][]int64, demands, supplies []int) (flows [][]int) {
	return solve(costs, demands, supplies).flows
}

// solve solves a transportation problem. With one more of a column's supply, the sum would fall by
// the negative potential of the column.
func solve(costs [][]int64, demands, supplies []int) *transportation {
	t := &transportation{
		costs: costs, flows: make([][]int, len(demands)), left: append([]int(nil), supplies...),
		rowPotential: make([]int64, len(demands)), columnPotential: make([]int64, len(supplies)),
	}
	for row := range demands {
		t.flows[row] = make([]int, len(supplies))
	}
	for row, demand := range demands {
		for demand > 0 {
			demand -= t.augment(row, demand)
		}
	}
	return t
}

// transportation is a transportation problem that is solved in part. Reduced costs are at least 0,
// and 0 where something flows.
type transportation struct {
	costs           [][]int64
	flows           [][]int
	left            []int // of each column's supply
	rowPotential    []int64
	columnPotential []int64
	work            int // in costs that were looked at
}

// search is a search for the shortest path from a row to a column with supply. -1 stands for no row
// and for no column.
type search struct {
	rowDistance []int64 // -1 if it was not reached
	rowFrom     []int   // the column before it
	distance    []int64
	from        []int // the row before it
	done        []bool
}

// augment gives a row up to demand more along one path, and returns how much.
func (t *transportation) augment(row, demand int) (amount int) {
	s := t.newSearch(row)
	t.relax(s, row)
	end := s.nearest()
	for t.work += len(t.left); t.left[end] == 0; t.work += 2*len(t.left) + len(t.costs) {
		s.done[end] = true
		for other := range t.costs {
			if t.flows[other][end] > 0 && s.rowDistance[other] < 0 {
				s.rowDistance[other], s.rowFrom[other] = s.distance[end], end
				t.relax(s, other)
			}
		}
		end = s.nearest()
	}
	t.updatePotentials(s, s.distance[end])
	amount = min(demand, t.left[end])
	t.walk(s, end, func(_, to, back int) {
		if back >= 0 {
			amount = min(amount, t.flows[to][back])
		}
	})
	t.left[end] -= amount
	t.walk(s, end, func(column, to, back int) {
		t.flows[to][column] += amount
		if back >= 0 {
			t.flows[to][back] -= amount
		}
	})
	return amount
}

// newSearch begins a search at a row.
func (t *transportation) newSearch(row int) *search {
	columns := len(t.left)
	s := &search{
		rowDistance: make([]int64, len(t.costs)), rowFrom: make([]int, len(t.costs)),
		distance: make([]int64, columns), from: make([]int, columns), done: make([]bool, columns),
	}
	for i := range s.rowDistance {
		s.rowDistance[i], s.rowFrom[i] = -1, -1
	}
	for i := range s.distance {
		s.distance[i] = math.MaxInt64
	}
	s.rowDistance[row] = 0
	return s
}

// relax shortens the distances of columns by paths through a row.
func (t *transportation) relax(s *search, row int) {
	base := s.rowDistance[row] - t.rowPotential[row]
	for column, cost := range t.costs[row] {
		if at := base + cost - t.columnPotential[column]; !s.done[column] && at < s.distance[column] {
			s.distance[column], s.from[column] = at, row
		}
	}
}

// nearest returns the nearest column that is not done.
func (s *search) nearest() (column int) {
	column = -1
	for i, at := range s.distance {
		if !s.done[i] && (column < 0 || at < s.distance[column]) {
			column = i
		}
	}
	return column
}

// updatePotentials makes the reduced costs along the path to a distance 0.
func (t *transportation) updatePotentials(s *search, distance int64) {
	for row, at := range s.rowDistance {
		if at >= 0 {
			t.rowPotential[row] += distance - at
		}
	}
	for column, done := range s.done {
		if done {
			t.columnPotential[column] -= distance - s.distance[column]
		}
	}
}

// walk calls a function for each row of the path that ends at a column: with the column that the
// row takes from, and the one that it gives back to; -1 at the start.
func (t *transportation) walk(s *search, column int, each func(column, row, back int)) {
	for column >= 0 {
		row := s.from[column]
		each(column, row, s.rowFrom[row])
		column = s.rowFrom[row]
	}
}
