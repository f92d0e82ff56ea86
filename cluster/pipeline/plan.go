package pipeline

import (
	"fmt"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Hash is a digest as text. Equal plans have equal hashes, on every node.
type Hash string

// Spec is what a plan is made for.
type Spec struct {
	Nodes          int // when it was first made
	GPUsPerNode    int
	GPUMemoryBytes int64 // of one GPU; 0 means that memory does not matter
	Faults         int   // simultaneous node losses that at least one copy of every layer survives
	Microbatches   int   // of an iteration, over all pipelines
}

// MaxNodes bounds nodes and faults.
const MaxNodes = 1 << 14

// Pipeline is a template on nodes: Nodes[i] is the template's node i.
type Pipeline struct {
	Template     int // its number of nodes
	Nodes        []cluster.NodeID
	Microbatches int
}

// Plan is which nodes train which layers.
type Plan struct {
	Profile   *Profile
	Spec      Spec
	Templates []*Template // consecutive sizes, the smallest first

	Pipelines []Pipeline
	// Spare nodes have no layers: no number of pipelines can use them.
	Spare []cluster.NodeID
	// Machines that several nodes share.
	Machines Machines

	// AtLeast is a lower bound of the iteration time with these templates on as many nodes; 0 if
	// unknown. It equals the iteration time if the plan is proven optimal. It describes the search and
	// is not part of what nodes must agree on.
	AtLeast int64
}

// Smallest returns the fewest nodes that a pipeline can have: n0.
func (p *Plan) Smallest() int { return p.Templates[0].Nodes }

// Largest returns the most nodes that a pipeline can have.
func (p *Plan) Largest() int { return p.Templates[len(p.Templates)-1].Nodes }

// Template returns the template for a number of nodes; nil if there is none.
func (p *Plan) Template(nodes int) *Template {
	if nodes < p.Smallest() || nodes > p.Largest() {
		return nil
	}
	return p.Templates[nodes-p.Smallest()]
}

// Nodes returns all nodes of the plan, by number.
func (p *Plan) Nodes() []cluster.NodeID {
	all := slices.Clone(p.Spare)
	for _, each := range p.Pipelines {
		all = append(all, each.Nodes...)
	}
	slices.Sort(all)
	return all
}

// IterationTime returns the slowest pipeline's time plus the all-reduce.
func (p *Plan) IterationTime() int64 {
	var slowest int64
	for _, each := range p.Pipelines {
		slowest = max(slowest, p.Template(each.Template).Line().At(each.Microbatches))
	}
	return slowest + p.Profile.AllReduce(len(p.Pipelines))
}

// Hash covers all that a node needs to do its part.
func (p *Plan) Hash() Hash {
	h := blake3.New()
	fmt.Fprintln(h, p.Profile.Hash(), p.Spec)
	for _, t := range p.Templates {
		fmt.Fprintln(h, t.Nodes, t.Stages)
	}
	for _, each := range p.Pipelines {
		fmt.Fprintln(h, each)
	}
	fmt.Fprintln(h, p.Spare)
	if len(p.Machines) > 0 {
		fmt.Fprintln(h, p.Machines)
	}
	return Hash(fmt.Sprintf("%x", h.Sum(nil)[:16]))
}
