package template

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// Search is the input of the search for templates.
type Search struct {
	Profile        *pipeline.Profile
	GPUsPerNode    int
	GPUMemoryBytes int64 // of one GPU; 0 ignores memory
	Progress       Progress
}

// Progress is told how many of the sizes have been searched; nil for nothing.
type Progress func(done, all int)

// PlanningMicrobatches is the number of microbatches, for each of its GPUs, that a template is
// optimal for.
const PlanningMicrobatches = 4

// Sizes returns the range of node counts that templates are made for: from the smallest that holds
// the model to what remains if the other `faults` pipelines have the smallest. With these, any
// number of nodes from (faults+1)·smallest on makes faults+1 pipelines: all but one of the smallest
// size, and one of the rest. Sizes with more nodes than the model has layers are impossible and
// left out.
func (s Search) Sizes(ctx context.Context, nodes, faults int) (smallest, largest int, err error) {
	if err := s.check(nodes, faults); err != nil {
		return 0, 0, err
	}
	if err := s.checkSize(nodes); err != nil {
		return 0, 0, err
	}
	smallest, err = s.smallest(ctx, nodes)
	if err != nil {
		return 0, 0, err
	}
	if needed := (faults + 1) * smallest; nodes < needed {
		feasible := nodes/smallest - 1
		return 0, 0, &pipeline.InfeasibleError{
			Problem: fmt.Sprintf(
				"%d nodes are too few: to survive %d failures takes %d pipelines of at least %d nodes each, %d nodes in all",
				nodes,
				faults,
				faults+1,
				smallest,
				needed,
			),
			Instead: fmt.Sprintf("with %d nodes the most is --faults %d", nodes, feasible),
		}
	}
	return smallest, min(nodes-faults*smallest, s.Profile.Len()/s.stagesOfANode()), nil
}

// maxCells bounds the tables of the search: to less than a gigabyte.
const maxCells = 1 << 25

// checkSize returns an error if the exact search would take gigabytes.
func (s Search) checkSize(nodes int) error {
	gpus := min(nodes, s.Profile.Len()/s.stagesOfANode()) * s.GPUsPerNode
	cells := (gpus + 1) * (s.Profile.Len() + 1)
	if s.GPUsPerNode == 1 || cells <= maxCells {
		return nil
	}
	return &pipeline.InfeasibleError{
		Problem: fmt.Sprintf("%d layers on %d GPUs take a search over %d states, more than %d",
			s.Profile.Len(), gpus, cells, maxCells),
		Instead: "fewer nodes, or layers joined to blocks, make it smaller",
	}
}

// stagesOfANode returns the fewest stages that use all GPUs of a node.
func (s Search) stagesOfANode() int { return s.fewestStages(s.GPUsPerNode)[s.GPUsPerNode] }

// fewestStages returns, for each number of GPUs, the fewest stages that use them; no stage spans
// two nodes.
func (s Search) fewestStages(gpus int) []int {
	fewest := make([]int, gpus+1)
	widths := s.Profile.Widths(s.GPUsPerNode)
	for all := 1; all <= gpus; all++ {
		fewest[all] = fewest[all-1] + 1
		for _, width := range widths {
			if s.onOneNode(all, width) {
				fewest[all] = min(fewest[all], fewest[all-width]+1)
			}
		}
	}
	return fewest
}

// onOneNode reports whether the last width of so many GPUs are on one node.
func (s Search) onOneNode(gpus, width int) bool { return (gpus-1)%s.GPUsPerNode+1 >= width }

func (s Search) check(nodes, faults int) error {
	switch {
	case nodes < 1 || nodes > pipeline.MaxNodes:
		return &pipeline.InputError{
			Where:   "nodes",
			Problem: fmt.Sprint(nodes),
			Want:    fmt.Sprintf("1 to %d", pipeline.MaxNodes),
		}
	case faults < 0 || faults >= pipeline.MaxNodes:
		return &pipeline.InputError{
			Where:   "faults",
			Problem: fmt.Sprint(faults),
			Want:    "at least 0: how many simultaneous failures of nodes to survive",
		}
	case s.GPUsPerNode < 1 || s.GPUsPerNode > pipeline.MaxGPUs:
		return &pipeline.InputError{
			Where:   "GPUs per node",
			Problem: fmt.Sprint(s.GPUsPerNode),
			Want:    fmt.Sprint("1 to ", pipeline.MaxGPUs),
		}
	case s.GPUMemoryBytes < 0:
		return &pipeline.InputError{
			Where:   "GPU memory",
			Problem: fmt.Sprint(s.GPUMemoryBytes),
			Want:    "bytes of one GPU, or 0 to leave memory out",
		}
	}
	return nil
}

// smallest returns the fewest nodes that hold the model, each stage with its microbatches in
// flight.
func (s Search) smallest(ctx context.Context, nodes int) (int, error) {
	most := min(nodes, s.Profile.Len()/s.stagesOfANode())
	if most == 0 {
		return 0, &pipeline.InfeasibleError{
			Problem: fmt.Sprintf(
				"%d GPUs of a node are at least %d stages, more than the profile's %d layers",
				s.GPUsPerNode,
				s.stagesOfANode(),
				s.Profile.Len(),
			),
			Instead: "all-reduce times among more GPUs of a node would let stages be wider",
		}
	}
	if s.GPUMemoryBytes == 0 {
		return 1, nil
	}
	n := s.fewestNodes(ctx, most)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if n > 0 {
		return n, nil
	}
	return 0, s.tooLarge(nodes, most)
}

// tooLarge returns why no number of nodes suffices.
func (s Search) tooLarge(nodes, most int) error {
	worst, layers := 0, s.Profile.Layers
	for i := range layers {
		if s.Profile.Bytes(i, i+1, 1, 1) > s.Profile.Bytes(worst, worst+1, 1, 1) {
			worst = i
		}
	}
	widths := s.Profile.Widths(s.GPUsPerNode)
	widest := widths[len(widths)-1]
	if needs := s.Profile.Bytes(worst, worst+1, widest, 1); needs > s.GPUMemoryBytes {
		return &pipeline.InfeasibleError{
			Problem: fmt.Sprintf("layer %d (%s) alone needs %s on each of %s, and a GPU has %s",
				worst, layers[worst].Name, pipeline.Size(needs), pipeline.Count(widest, "GPU"), pipeline.Size(s.GPUMemoryBytes)),
		}
	}
	all := s.Profile.StateBytes(0, len(layers))
	if most < nodes {
		return &pipeline.InfeasibleError{
			Problem: fmt.Sprintf(
				"it would take more stages than there are layers: %s on at most %s of %s "+
					"do not fit, %s of state and the activations in flight into %s a GPU",
				pipeline.Count(len(layers), "layer"),
				pipeline.Count(most, "node"),
				pipeline.Count(s.GPUsPerNode, "GPU"),
				pipeline.Size(all),
				pipeline.Size(s.GPUMemoryBytes),
			),
		}
	}
	return &pipeline.InfeasibleError{
		Problem: fmt.Sprintf(
			"no cut fits on %s: %s of state and the activations in flight on GPUs of %s, %d a node",
			pipeline.Count(nodes, "node"),
			pipeline.Size(all),
			pipeline.Size(s.GPUMemoryBytes),
			s.GPUsPerNode,
		),
		Instead: "the state alone takes " + pipeline.Count(int((all-1)/(s.GPUMemoryBytes*int64(s.GPUsPerNode))+1), "node"),
	}
}

// Templates returns the best cuts for every size from smallest to largest, or up to the first that
// does not fit into memory: more stages keep more microbatches in flight.
func (s Search) Templates(ctx context.Context, smallest, largest int) ([]*pipeline.Template, error) {
	found := s.best(ctx, smallest, largest)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, t := range found {
		if t == nil && i > 0 {
			return found[:i], nil
		}
		if t == nil {
			return nil, &pipeline.InfeasibleError{
				Problem: fmt.Sprintf("no cut for %d nodes fits into GPUs of %s, though one for %d does: "+
					"more stages keep more microbatches in flight", smallest+i, pipeline.Size(s.GPUMemoryBytes), smallest),
			}
		}
	}
	return found, nil
}
