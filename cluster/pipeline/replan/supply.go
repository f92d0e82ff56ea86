package replan

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// supply is the nodes that the next plan can use, by the layers that they hold.
type supply struct {
	plan  *pipeline.Plan
	holds []runs
	nodes []int // of each kind
	// bytes are, by template and place, what a node of each kind must be sent, and exact the kind
	// that holds just what is needed; -1 for none.
	bytes map[int][][]int64
	exact map[int][]int
}

// newSupply groups survivors by their layers.
func newSupply(plan *pipeline.Plan, nodes []survivor) *supply {
	s := &supply{plan: plan, bytes: map[int][][]int64{}, exact: map[int][]int{}}
	for _, each := range classes(len(nodes), func(i int) (runs, bool) { return nodes[i].holds, true }) {
		s.holds, s.nodes = append(s.holds, each.layers), append(s.nodes, len(each.members))
	}
	return s
}

// bytesOf returns, for each place of a template, what a node of each kind must be sent.
func (s *supply) bytesOf(size int) [][]int64 {
	if rows, known := s.bytes[size]; known {
		return rows
	}
	template, rows, exact := s.plan.Template(size), make([][]int64, size), make([]int, size)
	for place := range rows {
		needs := runs(template.NodeLayers(place))
		rows[place] = make([]int64, len(s.holds))
		for kind, holds := range s.holds {
			rows[place][kind] = cost(s.plan.Profile, needs, holds)
		}
		exact[place] = slices.IndexFunc(s.holds, func(holds runs) bool { return slices.Equal(holds, needs) })
	}
	s.bytes[size], s.exact[size] = rows, exact
	return rows
}

// assign returns the fewest bytes for pipelines of some sizes, and how much they would fall with
// one more node of each kind. Nodes that hold exactly what a place needs are put there first, as
// when nodes are assigned in the end.
func (s *supply) assign(sizes []int) (bytes int64, prices []int64, work int) {
	var costs [][]int64
	var demands []int
	left := slices.Clone(s.nodes)
	for size, n := range countOf(sizes) {
		for place := 0; n > 0 && place < size; place++ {
			row, kept := s.bytesOf(size)[place], 0
			if kind := s.exact[size][place]; kind >= 0 {
				kept = min(n, left[kind])
				left[kind] -= kept
			}
			if kept < n {
				costs, demands = append(costs, row), append(demands, n-kept)
			}
		}
	}
	t := solve(costs, demands, left)
	for row, flows := range t.flows {
		for kind, n := range flows {
			bytes += int64(n) * costs[row][kind]
		}
	}
	return bytes, t.prices(left), t.work
}

// prices returns how much the sum of the costs would fall with one more of each column's supply.
func (t *transportation) prices(supplies []int) (prices []int64) {
	for column, potential := range t.columnPotential {
		price := -potential
		if supplies[column] == 0 {
			for row, costs := range t.costs {
				price = max(price, t.rowPotential[row]-costs[column])
			}
		}
		prices = append(prices, price)
	}
	return prices
}

// value returns what the nodes of a pipeline are sent at least, with the prices added: each place
// has the kind that is cheapest for it.
func (s *supply) value(size int, prices []int64) (all int64) {
	for _, row := range s.bytesOf(size) {
		least := row[0] + prices[0]
		for kind, bytes := range row {
			least = min(least, bytes+prices[kind])
		}
		all += least
	}
	return all
}

// countOf returns how many pipelines have each size.
func countOf(sizes []int) (counts []int) {
	for _, size := range sizes {
		for len(counts) <= size {
			counts = append(counts, 0)
		}
		counts[size]++
	}
	return counts
}
