package template

import "slices"

// holds reports whether a stage and what it keeps in flight fit into the memory of its GPUs.
func (s Search) holds(from, to, width, inFlight int) bool {
	return s.GPUMemoryBytes == 0 || s.Profile.Bytes(from, to, width, inFlight) <= s.GPUMemoryBytes
}

// fewestNodes finds the fewest nodes, up to most, that hold all layers; 0 where none do. Times do not
// matter here, so that of all ways to place the last layers on the last GPUs that in the fewest
// stages is the best: it leaves those before it the fewest microbatches to keep.
func (s Search) fewestNodes(most int) int {
	widths := s.Profile.Widths(s.GPUsPerNode)
	stages := [][]int{s.noneFit()} // by GPUs, then by the first layer
	stages[0][s.Profile.Len()] = 0
	for gpus := 1; gpus <= most*s.GPUsPerNode; gpus++ {
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

// noneFit are numbers of stages, for each first layer, before any that fit have been found: more
// than there can be.
func (s Search) noneFit() []int { return slices.Repeat([]int{s.Profile.Len() + 1}, s.Profile.Len()+1) }

// putBefore puts a stage of so many GPUs before all that has been placed.
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
