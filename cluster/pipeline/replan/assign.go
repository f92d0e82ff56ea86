package replan

import (
	"math"
	"slices"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/cluster/pipeline"
)

// runs are layers, each run from..to-1, in order.
type runs [][2]int

// slot is a place in a pipeline of the next plan.
type slot struct {
	target int // index in the list of pipelines
	place  int // the template's node
	needs  runs
}

// missing returns the layers of a slot that a node does not hold.
func missing(needs, holds runs) (lacks []int) {
	for _, run := range needs {
		for layer := run[0]; layer < run[1]; layer++ {
			if !slices.ContainsFunc(holds, func(h [2]int) bool { return h[0] <= layer && layer < h[1] }) {
				lacks = append(lacks, layer)
			}
		}
	}
	return lacks
}

// cost returns how many bytes a node must be sent for a slot.
func cost(p *pipeline.Profile, needs, holds runs) (bytes int64) {
	for _, run := range needs {
		bytes += p.StateBytes(run[0], run[1])
		for _, h := range holds {
			if from, to := max(run[0], h[0]), min(run[1], h[1]); from < to {
				bytes -= p.StateBytes(from, to)
			}
		}
	}
	return bytes
}

// assign assigns nodes to slots so that as few bytes as possible are sent; there are at least as
// many nodes as slots. It returns the node of each slot, and the remaining nodes.
//
// A node that holds exactly what a slot needs keeps such a slot in some optimal assignment:
// whatever else it would be sent can be sent to the other node instead. So these are matched first,
// and only the others are searched.
func assign(
	p *pipeline.Profile,
	slots []slot,
	nodes []cluster.NodeID,
	holds map[cluster.NodeID]runs,
) (on, over []cluster.NodeID) {
	on = make([]cluster.NodeID, len(slots))
	nodes = slices.Clone(nodes)
	var open []int
	for i, s := range slots {
		same := slices.IndexFunc(nodes, func(node cluster.NodeID) bool { return slices.Equal(holds[node], s.needs) })
		if same < 0 {
			open = append(open, i)
			continue
		}
		on[i] = nodes[same]
		nodes = slices.Delete(nodes, same, same+1)
	}
	costs := make([][]int64, len(open))
	for row, i := range open {
		costs[row] = make([]int64, len(nodes))
		for column, node := range nodes {
			costs[row][column] = cost(p, slots[i].needs, holds[node])
		}
	}
	used := make([]bool, len(nodes))
	for row, column := range cheapest(costs, len(nodes)) {
		on[open[row]] = nodes[column]
		used[column] = true
	}
	for column, node := range nodes {
		if !used[column] {
			over = append(over, node)
		}
	}
	return on, over
}

// cheapest is the Hungarian method for a matrix with at least as many columns as rows: the column
// of each row, with the least sum. Rows are added one by one, each along the shortest augmenting
// path in the costs reduced by the potentials.
func cheapest(costs [][]int64, columns int) []int {
	rows := len(costs)
	rowPotential, columnPotential := make([]int64, rows+1), make([]int64, columns+1)
	rowOf := make([]int, columns+1) // counted from 1; 0 is none. Column 0 represents the row that is being added.
	for row := 1; row <= rows; row++ {
		rowOf[0] = row
		least, from := make([]int64, columns+1), make([]int, columns+1)
		done := make([]bool, columns+1)
		for i := range least {
			least[i] = math.MaxInt64
		}
		at := 0
		for rowOf[at] != 0 {
			done[at] = true
			current, delta, next := rowOf[at], int64(math.MaxInt64), 0
			for column := 1; column <= columns; column++ {
				if done[column] {
					continue
				}
				reduced := costs[current-1][column-1] - rowPotential[current] - columnPotential[column]
				if reduced < least[column] {
					least[column], from[column] = reduced, at
				}
				if least[column] < delta {
					delta, next = least[column], column
				}
			}
			for column := range columns + 1 {
				if done[column] {
					rowPotential[rowOf[column]] += delta
					columnPotential[column] -= delta
				} else {
					least[column] -= delta
				}
			}
			at = next
		}
		for at != 0 {
			rowOf[at] = rowOf[from[at]]
			at = from[at]
		}
	}
	found := make([]int, rows)
	for column := 1; column <= columns; column++ {
		if rowOf[column] > 0 {
			found[rowOf[column]-1] = column - 1
		}
	}
	return found
}
