package scheduler

import (
	"math/bits"

	"github.com/phos-gpu/phos/cluster"
)

// MaxGPUsPerNode is what one node can have at most.
const MaxGPUsPerNode = 64

// Free is what is free of a cluster, and when the rest is expected to be, kept so that "which node
// has exactly three free GPUs" is not a search. Nodes that are down or draining have nothing free.
// Policies only read it.
type Free struct {
	nodes []cluster.Node
	whole []uint64 // per node, a bit for each GPU that nobody uses
	// per node and GPU, the free thousandths of those in use; nil for a node whose GPUs were never
	// shared
	shares   [][]int
	closed   []bool   // per node
	versions []uint32 // per node, how often it has changed
	rackOf   []int32  // per node
	racks    map[string]int32
	classOf  []*nodeClass // per node
	classes  []*nodeClass
	expected expectedReleases
	changes  uint64
}

// Whole is how many GPUs of a type nobody uses; of any where the type is empty.
func (f *Free) Whole(gpuType string) int {
	whole := 0
	for _, k := range f.classes {
		if gpuType == "" || gpuType == k.gpuType {
			whole += k.whole
		}
	}
	return whole
}

// WholeFor is how many GPUs nobody uses that a job can run on.
func (f *Free) WholeFor(j *Job) int {
	whole := 0
	for _, k := range f.classes {
		if k.suits(j) {
			whole += k.whole
		}
	}
	return whole
}

// On is how many GPUs of a node nobody uses.
func (f *Free) On(node cluster.NodeID) int {
	if f.closed[node] {
		return 0
	}
	return bits.OnesCount64(f.whole[node])
}

// Mask has a bit for each GPU of a node that nobody uses.
func (f *Free) Mask(node cluster.NodeID) uint64 {
	if f.closed[node] {
		return 0
	}
	return f.whole[node]
}

// Share is how much of a GPU is free, in thousandths.
func (f *Free) Share(gpu cluster.GPU) int {
	switch {
	case f.closed[gpu.Node]:
		return 0
	case f.whole[gpu.Node]&(1<<gpu.Index) != 0:
		return cluster.WholeGPU
	case f.shares[gpu.Node] == nil:
		return 0
	}
	return f.shares[gpu.Node][gpu.Index]
}

// Closed reports whether a node is down or draining.
func (f *Free) Closed(node cluster.NodeID) bool { return f.closed[node] }

// Version changes whenever something of a node is taken, given back, closed or opened: what was
// worked out about the node holds until then.
func (f *Free) Version(node cluster.NodeID) uint32 { return f.versions[node] }

// Rack numbers the rack of a node, from 0 to Racks()-1. Nodes without a rack are in one together.
func (f *Free) Rack(node cluster.NodeID) int { return int(f.rackOf[node]) }

// Racks is how many there are.
func (f *Free) Racks() int { return len(f.racks) }

// Pick are n free GPUs of a node, the lowest indices first. It must have that many.
func (f *Free) Pick(to cluster.Placement, node cluster.NodeID, n int) cluster.Placement {
	return pick(to, node, f.whole[node], n)
}

func pick(to cluster.Placement, node cluster.NodeID, mask uint64, n int) cluster.Placement {
	for ; n > 0; n-- {
		to = append(to, cluster.GPU{Node: node, Index: int32(bits.TrailingZeros64(mask))})
		mask &= mask - 1
	}
	return to
}

// Suits reports whether a job can run on a node's GPUs at all, were they free.
func (f *Free) Suits(j *Job, node cluster.NodeID) bool { return f.classOf[node].suits(j) }

// newFree is a cluster of which everything is free.
func newFree(nodes []cluster.Node) *Free {
	f := &Free{racks: map[string]int32{}}
	for _, node := range nodes {
		f.add(node)
	}
	return f
}

// add is a new node, numbered after the others.
func (f *Free) add(node cluster.Node) {
	f.nodes = append(f.nodes, node)
	f.whole = append(f.whole, 1<<node.GPUs-1)
	f.shares = append(f.shares, nil)
	f.closed = append(f.closed, false)
	f.versions = append(f.versions, 0)
	f.rackOf = append(f.rackOf, f.rackNumber(node.Rack))
	f.classOf = append(f.classOf, f.nodeClass(&node))
	f.changes++
	f.enter(node.ID, +1)
}

// replace is a node that has come back as another one. It must be closed, and nobody may use
// anything of it.
func (f *Free) replace(node cluster.Node) {
	f.nodes[node.ID] = node
	f.whole[node.ID] = 1<<node.GPUs - 1
	f.shares[node.ID] = nil
	f.rackOf[node.ID] = f.rackNumber(node.Rack)
	f.classOf[node.ID] = f.nodeClass(&node)
	f.versions[node.ID]++
}

func (f *Free) rackNumber(name string) int32 {
	rack, known := f.racks[name]
	if !known {
		rack = int32(len(f.racks))
		f.racks[name] = rack
	}
	return rack
}

// nodeClass finds the kind of a node, a new one if it is the first of its kind.
func (f *Free) nodeClass(node *cluster.Node) *nodeClass {
	for _, k := range f.classes {
		if k.gpuType == node.GPUType && k.memoryBytes == node.GPUMemoryBytes && k.gpus == node.GPUs {
			return k
		}
	}
	k := &nodeClass{
		gpuType:     node.GPUType,
		memoryBytes: node.GPUMemoryBytes,
		gpus:        node.GPUs,
		byFree:      make([]nodeSet, node.GPUs+1),
	}
	f.classes = append(f.classes, k)
	return k
}

// enter enters a node with its kind as it is now, or takes it out.
func (f *Free) enter(node cluster.NodeID, sign int) {
	if f.closed[node] {
		return
	}
	k := f.classOf[node]
	k.enter(node, f.rackOf[node], bits.OnesCount64(f.whole[node]), sign)
	for _, share := range f.shares[node] {
		if share > 0 {
			k.enterShared(node, share, sign)
		}
	}
}

// allocate gives a share of each GPU of a placement away. What is not free cannot be taken: check has
// seen to it.
func (f *Free) allocate(on cluster.Placement, share int) { f.adjust(on, -share) }

// release takes it back.
func (f *Free) release(on cluster.Placement, share int) { f.adjust(on, +share) }

func (f *Free) adjust(on cluster.Placement, share int) {
	for from := 0; from < len(on); {
		to := from
		for to < len(on) && on[to].Node == on[from].Node {
			to++
		}
		node := on[from].Node
		f.enter(node, -1)
		for _, gpu := range on[from:to] {
			f.adjustGPU(gpu, share)
		}
		f.versions[node]++
		f.changes++
		f.enter(node, +1)
		from = to
	}
}

func (f *Free) adjustGPU(gpu cluster.GPU, share int) {
	bit := uint64(1) << gpu.Index
	if share == -cluster.WholeGPU {
		f.whole[gpu.Node] &^= bit
		return
	}
	if share == cluster.WholeGPU {
		f.whole[gpu.Node] |= bit
		return
	}
	if f.shares[gpu.Node] == nil {
		f.shares[gpu.Node] = make([]int, f.nodes[gpu.Node].GPUs)
	}
	left := &f.shares[gpu.Node][gpu.Index]
	if f.whole[gpu.Node]&bit != 0 {
		*left = cluster.WholeGPU
	}
	*left += share
	f.whole[gpu.Node] &^= bit
	if *left == cluster.WholeGPU {
		f.whole[gpu.Node] |= bit
		*left = 0
	}
}

// setClosed makes a node's GPUs unavailable, or available again.
func (f *Free) setClosed(node cluster.NodeID, closed bool) {
	if f.closed[node] == closed {
		return
	}
	f.enter(node, -1)
	f.closed[node] = closed
	f.versions[node]++
	f.changes++
	f.enter(node, +1)
	f.expected.invalidate()
}
