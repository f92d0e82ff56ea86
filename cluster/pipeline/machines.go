package pipeline

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Machines are the nodes that share a machine, and are lost together if it is. A node that is not
// listed has a machine of its own.
type Machines [][]cluster.NodeID

// Of returns a number for the machine of each node.
func (m Machines) Of(nodes []cluster.NodeID) []int {
	shared := map[cluster.NodeID]int{}
	for i, each := range m {
		for _, node := range each {
			shared[node] = i
		}
	}
	numbers := make([]int, len(nodes))
	for i, node := range nodes {
		number, ok := shared[node]
		if !ok {
			number = len(m) + i
		}
		numbers[i] = number
	}
	return numbers
}

// Want returns on how many machines each layer should be: one more than the faults, or on all.
func (m Machines) Want(faults int, nodes []cluster.NodeID) int {
	return min(faults+1, len(distinct(m.Of(nodes))))
}

// Among returns what some nodes share: sorted, and without machines of a single node. The nodes are
// sorted.
func (m Machines) Among(nodes []cluster.NodeID) (among Machines) {
	for _, each := range m {
		var left []cluster.NodeID
		for _, node := range each {
			if _, found := slices.BinarySearch(nodes, node); found {
				left = append(left, node)
			}
		}
		if slices.Sort(left); len(left) > 1 {
			among = append(among, left)
		}
	}
	slices.SortFunc(among, func(a, b []cluster.NodeID) int { return slices.Compare(a, b) })
	return among
}

// Check returns an error if a node is on two machines.
func (m Machines) Check() error {
	on := map[cluster.NodeID]int{}
	for i, each := range m {
		for _, node := range each {
			if other, twice := on[node]; twice {
				return &InputError{
					Where: "machines", Problem: fmt.Sprintf("node %d is on machine %d and on machine %d", node, other, i),
					Want: "each node once, such as 0-3/4-7",
				}
			}
			on[node] = i
		}
	}
	return nil
}

// OnTooFew returns the layers that are on fewer machines than the faults require, or than there
// are.
func (p *Plan) OnTooFew() (layers []int) {
	nodes := p.Nodes()
	want, machines := p.Machines.Want(p.Spec.Faults, nodes), map[cluster.NodeID]int{}
	for i, number := range p.Machines.Of(nodes) {
		machines[nodes[i]] = number
	}
	on := make([][]int, p.Profile.Len())
	for _, each := range p.Pipelines {
		for place, node := range each.Nodes {
			for _, run := range p.Template(each.Template).NodeLayers(place) {
				for layer := run[0]; layer < run[1]; layer++ {
					on[layer] = append(on[layer], machines[node])
				}
			}
		}
	}
	for layer, numbers := range on {
		if len(distinct(numbers)) < want {
			layers = append(layers, layer)
		}
	}
	return layers
}

// distinct returns numbers without duplicates.
func distinct(numbers []int) []int {
	numbers = slices.Sorted(slices.Values(numbers))
	return slices.Compact(numbers)
}
