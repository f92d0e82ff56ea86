package replan

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// runs are layers, each run from..to-1, in order.
type runs [][2]int

// key returns a text that equal layers have in common.
func (r runs) key() string { return fmt.Sprint([][2]int(r)) }

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
