package template

import (
	"context"
	"slices"
)

// holds reports whether a stage and its microbatches in flight fit into the memory of its GPUs.
func (s Search) holds(from, to, width, inFlight int) bool {
	return s.GPUMemoryBytes == 0 || s.Profile.Bytes(from, to, width, inFlight) <= s.GPUMemoryBytes
}

// fewestNodes returns the fewest nodes, up to most, that hold all layers; 0 if none do. Times do
// not matter here. So among all ways to place the last layers on the last GPUs, the one with the
// fewest stages is best: it leaves the fewest microbatches in flight to the stages before it.
func (s Search) fewestNodes(ctx context.Context, most int) int {
	widths := s.Profile.Widths(s.GPUsPerNode)
	stages := [][]int{s.noneFit()} // by GPUs, then by the first layer
	stages[0][s.Profile.Len()] = 0
	for gpus := 1; gpus <= most*s.GPUsPerNode && ctx.Err() == nil; gpus++ {
		row := s.noneFit()
		for _, width := range widths {
			if s.onOneNode(gpus, width) {
				s.putBefore(row, stages[gpus-width], width)
			}
		}
		if gpus%s.GPUsPerNode == 0 && row[0] <= s.Profile.Len() {
			return gpus / s.GPUsPerNode
		}
		stages = append(stages, row)
	}
	return 0
}

// noneFit returns the number of stages for each first layer before any placement is known: more
// than possible.
func (s Search) noneFit() []int { return slices.Repeat([]int{s.Profile.Len() + 1}, s.Profile.Len()+1) }

// putBefore places a stage on so many GPUs before all that has been placed.
func (s Search) putBefore(row, behind []int, width int) {
	layers := s.Profile.Len()
	for from := range layers {
		for to := from + 1; to <= layers && s.holds(from, to, width, 1); to++ {
			if all := behind[to] + 1; all < row[from] && s.holds(from, to, width, all) {
				row[from] = all
			}
		}
	}
}
