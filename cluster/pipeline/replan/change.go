package replan

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/cluster/pipeline"
)

// Change is what has happened to the nodes of a plan.
type Change struct {
	Dead    []cluster.NodeID
	Leaving []cluster.NodeID // they are to be given up, and can still be copied from
	Joined  []cluster.NodeID // they have no layers
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
	Pipeline int  `json:"pipeline"` // its number in the plan before; -1 for a new one
	What     What `json:"what"`
	Before   int  `json:"nodes_before"`
	After    int  `json:"nodes_after"` // 0 when it is no more
}

// What names the ways to go on.
type What string

const (
	Filled         What = "filled"         // with new or spare nodes
	Reinstantiated What = "reinstantiated" // with the template of what is left of it
	Borrowed       What = "borrowed"       // from larger ones
	Lent           What = "lent"           // to those that borrow, or to a new one
	Merged         What = "merged"         // with others that were too small
	Made           What = "made"           // of new nodes
	Split          What = "split"          // made of nodes that others had to spare, so that there are enough copies
	Gone           What = "gone"           // no node of it is left
)

// check makes sets of a change: sorted, without repetition, in agreement with the plan.
func (c Change) check(plan *pipeline.Plan) (Change, error) {
	c.Dead, c.Leaving, c.Joined = sortedSet(c.Dead), sortedSet(c.Leaving), sortedSet(c.Joined)
	for _, each := range []struct {
		what  string
		nodes []cluster.NodeID
	}{{"dead", c.Dead}, {"leaving", c.Leaving}} {
		for _, node := range each.nodes {
			if _, known := plan.Find(node); !known {
				return c, &pipeline.InputError{
					Where: fmt.Sprintf("%s node %d", each.what, node), Problem: "is not in the plan",
					Want: fmt.Sprintf("some of %s", ranges(plan.Nodes())),
				}
			}
		}
	}
	for _, node := range c.Joined {
		if _, known := plan.Find(node); known || node < 0 {
			return c, &pipeline.InputError{
				Where: fmt.Sprintf("joining node %d", node), Problem: "is in the plan already, or below 0",
				Want: "numbers of new nodes",
			}
		}
	}
	// Who is dead does not leave.
	c.Leaving = slices.DeleteFunc(c.Leaving, func(node cluster.NodeID) bool { return slices.Contains(c.Dead, node) })
	return c, nil
}

func sortedSet(nodes []cluster.NodeID) []cluster.NodeID {
	nodes = slices.Clone(nodes)
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// ranges writes sorted numbers briefly.
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

// gone reports whether a node takes no part any more.
func (c *Change) gone(node cluster.NodeID) bool {
	_, dead := slices.BinarySearch(c.Dead, node)
	_, leaving := slices.BinarySearch(c.Leaving, node)
	return dead || leaving
}
