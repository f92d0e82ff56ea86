package place

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Topology places a job under as few switches as possible: on one node, else in one rack, else in
// the fewest racks; and then on the fewest nodes of those (the hierarchical affinity of Xiao et
// al., Gandiva, OSDI 2018, §4.1, and of Jeon et al., Analysis of Large-Scale Multi-Tenant GPU
// Clusters, ATC 2019, §2.3). Among several suitable racks it takes the one where the fewest nodes
// suffice, then the one with the fewest free GPUs. A job for several racks gets those with the most
// free GPUs; the last of them is the one that just suffices.
type Topology struct{}

// Place returns n GPUs, or a share of one.
func (Topology) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	f := v.Free()
	if j.Share() < cluster.WholeGPU {
		return tightestShare(f, j)
	}
	if f.WholeFor(j) < n {
		return nil, false
	}
	if n <= f.Largest(j) {
		return f.Pick(nil, nodeInFullestRack(f, j, n), n), true
	}
	return pickAll(f, acrossNodes(f, j, n)), true
}

// nodeInFullestRack returns a best-fit node; among several, one in the rack with the fewest free
// GPUs.
func nodeInFullestRack(f *scheduler.Free, j *scheduler.Job, n int) cluster.NodeID {
	best, _ := bestFitNode(f, j, n, nil)
	level := f.On(best)
	if f.Racks() == 1 {
		return best
	}
	for node, ok := best, true; ok; node, ok = f.Next(j, node+1, level, level) {
		if f.OnRack(j, f.Rack(node)) < f.OnRack(j, f.Rack(best)) {
			best = node
		}
	}
	return best
}

// acrossNodes places a job that no single node can take. There must be n GPUs.
func acrossNodes(f *scheduler.Free, j *scheduler.Job, n int) []nodePart {
	if f.Racks() == 1 {
		return fewestNodes(nil, f, j, n, nil)
	}
	return fewestNodes(nil, f, j, n, chooseRacks(f, j, n))
}

// rack is what a rack has free for a job.
type rack struct {
	number, free, nodes int // nodes is how many the job would need there
}

// chooseRacks returns which racks to use.
func chooseRacks(f *scheduler.Free, j *scheduler.Job, n int) []bool {
	racks := make([]rack, f.Racks())
	for i := range racks {
		racks[i] = rack{number: i, free: f.OnRack(j, i)}
	}
	chosen := make([]bool, len(racks))
	slices.SortStableFunc(racks, func(a, b rack) int { return cmp.Compare(b.free, a.free) })
	for len(racks) > 0 && racks[0].free < n {
		chosen[racks[0].number] = true
		n -= racks[0].free
		racks = racks[1:]
		if n == 0 {
			return chosen
		}
	}
	suffice, _ := slices.BinarySearchFunc(racks, n, func(r rack, n int) int {
		if r.free >= n {
			return -1
		}
		return 1
	})
	racks = racks[:suffice]
	countNodes(f, j, n, racks)
	last := slices.MinFunc(racks, func(a, b rack) int {
		return cmp.Or(cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.free, b.free), cmp.Compare(a.number, b.number))
	})
	chosen[last.number] = true
	return chosen
}

// countNodes counts how many nodes of each rack n GPUs would take.
func countNodes(f *scheduler.Free, j *scheduler.Job, n int, racks []rack) {
	left := make([]int, f.Racks())
	at := make([]int, f.Racks())
	for i := range racks {
		at[racks[i].number] = i
		left[racks[i].number] = n
	}
	for level := f.Largest(j); level > 0; level-- {
		if f.Count(j, level) == 0 {
			continue
		}
		for node, ok := f.Next(j, 0, level, level); ok; node, ok = f.Next(j, node+1, level, level) {
			if r := f.Rack(node); left[r] > 0 {
				left[r] -= level
				racks[at[r]].nodes++
			}
		}
	}
}
