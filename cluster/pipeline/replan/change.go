package replan

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Change is what has happened to the nodes of a plan.
type Change struct {
	Dead    []cluster.NodeID
	Leaving []cluster.NodeID // they will be given up, and can still be copied from
	Joined  []cluster.NodeID // they hold no layers
	// Machines that nodes share from now on; nil: as before.
	Machines pipeline.Machines
}

// Result is the plan after a change, and how to get there.
type Result struct {
	Plan      *pipeline.Plan
	Steps     []Step
	Transfers []Transfer
	Lost      []Lost
	Bytes     int64 // of all transfers
}

// Step is what was done for a pipeline.
type Step struct {
	Pipeline int  `json:"pipeline"` // its number in the previous plan; -1 for a new one
	What     What `json:"what"`
	Before   int  `json:"nodes_before"`
	After    int  `json:"nodes_after"` // 0 if it no longer exists
}

// What is a kind of step.
type What string

const (
	Filled         What = "filled"         // with new or spare nodes
	Reinstantiated What = "reinstantiated" // with the template for its remaining nodes
	Borrowed       What = "borrowed"       // from larger ones
	Lent           What = "lent"           // to borrowing or new pipelines
	Merged         What = "merged"         // with others that were too small
	Made           What = "made"           // of new nodes
	Split          What = "split"          // made of nodes that others could spare, for enough copies
	Gone           What = "gone"           // no node is left
)

// check returns the change with sorted sets without duplicates, and verifies it against the plan.
func (c Change) check(plan *pipeline.Plan) (Change, error) {
	c.Dead, c.Leaving, c.Joined = sortedSet(c.Dead), sortedSet(c.Leaving), sortedSet(c.Joined)
	for _, each := range []struct {
		what  string
		nodes []cluster.NodeID
	}{{"dead", c.Dead}, {"leaving", c.Leaving}} {
		for _, node := range each.nodes {
			if _, ok := plan.Find(node); !ok {
				return c, &pipeline.InputError{
					Where: fmt.Sprintf("%s node %d", each.what, node), Problem: "is not in the plan",
					Want: fmt.Sprintf("nodes out of %s", ranges(plan.Nodes())),
				}
			}
		}
	}
	for _, node := range c.Joined {
		if _, ok := plan.Find(node); ok || node < 0 {
			return c, &pipeline.InputError{
				Where: fmt.Sprintf("joining node %d", node), Problem: "is in the plan already, or below 0",
				Want: "numbers of new nodes",
			}
		}
	}
	// A dead node cannot leave.
	c.Leaving = slices.DeleteFunc(c.Leaving, func(node cluster.NodeID) bool { return slices.Contains(c.Dead, node) })
	return c, nil
}

// sortedSet returns the nodes sorted, without duplicates.
func sortedSet(nodes []cluster.NodeID) []cluster.NodeID {
	nodes = slices.Clone(nodes)
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// ranges formats sorted numbers as ranges.
func ranges(nodes []cluster.NodeID) (text string) {
	for i := 0; i < len(nodes); {
		j := i
		for j+1 < len(nodes) && nodes[j+1] == nodes[j]+1 {
			j++
		}
		if text != "" {
			text += ","
		}
		if text += fmt.Sprint(nodes[i]); j > i {
			text += fmt.Sprintf("-%d", nodes[j])
		}
		i = j + 1
	}
	return text
}

// gone reports whether a node no longer takes part.
func (c *Change) gone(node cluster.NodeID) bool {
	_, dead := slices.BinarySearch(c.Dead, node)
	_, leaving := slices.BinarySearch(c.Leaving, node)
	return dead || leaving
}
