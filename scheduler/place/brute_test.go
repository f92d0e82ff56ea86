package place_test

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// TestTopologyTakesTheFewestRacks compares with all subsets of nodes: one node if possible, else
// the fewest racks; in one rack, the fewest nodes of any rack.
func TestTopologyTakesTheFewestRacks(t *testing.T) {
	for _, name := range []string{"topology", "bandwidth"} {
		scenes(t, 400, []string{"", "A"}, func(t *testing.T, s *scene, j *scheduler.Job) {
			on, ok := placer(t, name).Place(s, j, j.GPUs())
			if !ok {
				return
			}
			counts, _ := s.byNode(j)
			racks, nodes := math.MaxInt, math.MaxInt
			for set := range uint(1) << len(counts) {
				sum, in := 0, map[string]bool{}
				for i, n := range counts {
					if set&(1<<i) != 0 {
						sum += n
						in[s.nodes[i].Rack] = true
					}
				}
				if size := bits.OnesCount(set); sum >= j.GPUs() &&
					(len(in) < racks || len(in) == racks && size < nodes) {
					racks, nodes = len(in), size
				}
			}
			in := map[string]bool{}
			for _, gpu := range on {
				in[s.nodes[gpu.Node].Rack] = true
			}
			if len(in) != racks || racks == 1 && on.Nodes() != nodes {
				t.Errorf(
					"%s: %v has %d racks and %d nodes of %v, not %d and %d",
					name,
					on,
					len(in),
					on.Nodes(),
					counts,
					racks,
					nodes,
				)
			}
		})
	}
}

// TestBandwidthByAllSubsets compares with all subsets of the free GPUs of all nodes.
func TestBandwidthByAllSubsets(t *testing.T) {
	scenes(t, 400, []string{"", "A"}, func(t *testing.T, s *scene, j *scheduler.Job) {
		on, ok := placer(t, "bandwidth").Place(s, j, j.GPUs())
		if !ok || j.Share() < cluster.WholeGPU {
			return
		}
		for from := 0; from < len(on); {
			to := from
			for to < len(on) && on[to].Node == on[from].Node {
				to++
			}
			s.isBestOfNode(t, j, on[from:to])
			from = to
		}
		if on.Nodes() > 1 {
			return
		}
		for _, node := range s.nodes {
			if best := s.bestWorst(j, node.ID, j.GPUs()); best > s.worst(on) {
				t.Errorf("%v has %v, node %d has %v", on, s.worst(on), node.ID, best)
			}
		}
	})
}

func (s *scene) isBestOfNode(t *testing.T, j *scheduler.Job, on cluster.Placement) {
	t.Helper()
	if best, got := s.bestWorst(j, on[0].Node, len(on)), s.worst(on); best != got {
		t.Errorf("%v has %v at the worst, %v is possible", on, got, best)
	}
}

// bestWorst returns the best slowest link of n free GPUs of a node; negative if there are fewer.
func (s *scene) bestWorst(j *scheduler.Job, node cluster.NodeID, n int) float64 {
	gpus := s.usable(j, node)
	best := -1.0
	for set := range uint(1) << len(gpus) {
		if bits.OnesCount(set) != n {
			continue
		}
		var on cluster.Placement
		for i, gpu := range gpus {
			if set&(1<<i) != 0 {
				on = append(on, cluster.GPU{Node: node, Index: int32(gpu)})
			}
		}
		best = max(best, s.worst(on))
	}
	return best
}

// worst returns the slowest link between GPUs of one node.
func (s *scene) worst(on cluster.Placement) float64 {
	worst := math.Inf(1)
	links := s.nodes[on[0].Node].Links
	for _, a := range on {
		for _, b := range on {
			if a != b && links != nil {
				worst = min(worst, links[a.Index][b.Index])
			}
		}
	}
	return worst
}

// TestBandwidthLeavesPairsWhole shows what a small job takes of a node with two fast pairs, one of
// which is half used.
func TestBandwidthLeavesPairsWhole(t *testing.T) {
	links := [][]float64{{0, 50, 10, 10}, {50, 0, 10, 10}, {10, 10, 0, 50}, {10, 10, 50, 0}}
	nodes := []cluster.Node{{GPUs: 4, Links: links}}
	for _, c := range []struct {
		busy []int32
		gpus int
		want []int32
	}{
		{[]int32{0}, 1, []int32{1}},
		{[]int32{2}, 1, []int32{3}},
		{nil, 2, []int32{0, 1}},
		{[]int32{1}, 2, []int32{2, 3}},
		{[]int32{0, 2}, 2, []int32{1, 3}},
		{nil, 1, []int32{0}},
	} {
		jobs := []schedulertest.Job{{Job: cluster.Job{ID: 1, GPUs: c.gpus}, Phase: scheduler.Waiting}}
		for i, gpu := range c.busy {
			on := cluster.Placement{{Index: gpu}}
			jobs = append(
				jobs,
				schedulertest.Job{Job: cluster.Job{ID: cluster.JobID(2 + i), GPUs: 1}, Phase: scheduler.Running, On: on},
			)
		}
		m := schedulertest.NewView(0, nodes, jobs...)
		on, _ := placer(t, "bandwidth").Place(m, m.Job(1), c.gpus)
		var got []int32
		for _, gpu := range on {
			got = append(got, gpu.Index)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d GPUs with %v in use: %v, want %v", c.gpus, c.busy, got, c.want)
		}
	}
}

// TestLargeNodesKeepTheBestLinks: a node with more GPUs than are enumerated, in groups of eight
// with fast links.
func TestLargeNodesKeepTheBestLinks(t *testing.T) {
	const gpus = 40
	links := make([][]float64, gpus)
	for a := range links {
		links[a] = make([]float64, gpus)
		for b := range links[a] {
			if links[a][b] = 10; a/8 == b/8 {
				links[a][b] = 300
			}
		}
	}
	m := schedulertest.NewView(
		0,
		[]cluster.Node{{GPUs: gpus, Links: links}},
		schedulertest.Job{Job: cluster.Job{ID: 1, GPUs: 8}, Phase: scheduler.Waiting},
	)
	on, ok := placer(t, "bandwidth").Place(m, m.Job(1), 8)
	if !ok || on[0].Index/8 != on[7].Index/8 {
		t.Errorf("eight GPUs of one group: %v", on)
	}
}

// fragmentation is the paper's definition, for the whole cluster, in thousandths of a GPU times
// jobs.
func (s *scene) fragmentation() int64 {
	sum := 0
	for _, node := range s.nodes {
		if s.Free().Closed(node.ID) {
			continue
		}
		for _, task := range mix {
			sum += task.Jobs * s.useless(node, task.GPUs, task.Share, task.GPUType)
		}
	}
	return int64(sum)
}

func (s *scene) useless(node cluster.Node, gpus, share int, gpuType string) int {
	able, all, small := 0, 0, 0
	for i := range node.GPUs {
		free := s.free[cluster.GPU{Node: node.ID, Index: int32(i)}]
		all += free
		if free >= share {
			able++
		} else {
			small += free
		}
	}
	if gpuType != "" && gpuType != node.GPUType || able < min(gpus, node.GPUs) {
		return all
	}
	return small
}

// TestFGDByEnumeration compares with all nodes and GPUs: the first one after which the cluster is
// least fragmented.
func TestFGDByEnumeration(t *testing.T) {
	scenes(t, 600, []string{"", "A"}, func(t *testing.T, s *scene, j *scheduler.Job) {
		on, ok := placer(t, "fgd").Place(s, j, j.GPUs())
		if !ok || on.Nodes() > 1 {
			return
		}
		var want cluster.Placement
		least := int64(math.MaxInt64)
		for _, candidate := range s.candidates(j) {
			for _, gpu := range candidate {
				s.free[gpu] -= j.Share()
			}
			if f := s.fragmentation(); f < least {
				want, least = candidate, f
			}
			for _, gpu := range candidate {
				s.free[gpu] += j.Share()
			}
		}
		if !slices.Equal(on, want) {
			t.Errorf("%v, but %v is left least fragmented", on, want)
		}
	})
}

// candidates are the places on one node: each GPU for a share, the lowest GPUs of a node for whole
// ones.
func (s *scene) candidates(j *scheduler.Job) (all []cluster.Placement) {
	for _, node := range s.nodes {
		var on cluster.Placement
		for _, i := range s.usable(j, node.ID) {
			on = append(on, cluster.GPU{Node: node.ID, Index: int32(i)})
		}
		switch {
		case j.Share() < cluster.WholeGPU:
			for i := range on {
				all = append(all, on[i:i+1])
			}
		case len(on) >= j.GPUs():
			all = append(all, on[:j.GPUs()])
		}
	}
	return all
}

// TestFGDAcrossNodesTakesTheFewest: a job for several nodes gets the fewest.
func TestFGDAcrossNodesTakesTheFewest(t *testing.T) {
	scenes(t, 400, []string{"", "A"}, func(t *testing.T, s *scene, j *scheduler.Job) {
		on, ok := placer(t, "fgd").Place(s, j, j.GPUs())
		counts, _ := s.byNode(j)
		if ok && j.Share() == cluster.WholeGPU && on.Nodes() != fewestOf(counts, j.GPUs()) {
			t.Errorf("%v of %v", on, counts)
		}
	})
}
