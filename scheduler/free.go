package scheduler

import (
	"math/bits"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// MaxGPUsPerNode is the most GPUs that a node can have.
const MaxGPUsPerNode = 64

// Free is what is free of a cluster, and when the rest is expected to become free, indexed so that
// "which node has exactly three free GPUs" is not a search. Closed nodes have nothing free, and a
// GPU that something foreign occupies is not free. Policies only read it.
type Free struct {
	nodes   []cluster.Node
	whole   []uint64 // per node, a bit for each GPU that no job has
	foreign []uint64 // per node, a bit for each occupied GPU; a job may have it nonetheless
	// per node and GPU, the free thousandths of those in use; nil if the node's GPUs were never shared
	shares   [][]int
	closed   []bool // per node
	states   []NodeState
	versions []uint32 // per node, how often it has changed
	rackOf   []int32  // per node
	racks    map[string]int32
	classOf  []*nodeClass // per node
	classes  []*nodeClass
	expected expectedReleases
	changes  uint64
}

// Whole returns how many GPUs of a type are unused; of any type if it is "".
func (f *Free) Whole(gpuType string) int {
	whole := 0
	for _, k := range f.classes {
		if gpuType == "" || gpuType == k.gpuType {
			whole += k.whole
		}
	}
	return whole
}

// WholeFor returns how many unused GPUs a job can run on.
func (f *Free) WholeFor(j *Job) int {
	whole := 0
	for _, k := range f.classes {
		if k.suits(j) {
			whole += k.whole
		}
	}
	return whole
}

// On returns how many GPUs of a node are unused.
func (f *Free) On(node cluster.NodeID) int {
	if f.closed[node] {
		return 0
	}
	return bits.OnesCount64(f.unused(node))
}

// unused has a bit for each GPU of a node, closed or not, that neither a job nor anything foreign
// uses.
func (f *Free) unused(node cluster.NodeID) uint64 { return f.whole[node] &^ f.foreign[node] }

// Mask has a bit for each unused GPU of a node.
func (f *Free) Mask(node cluster.NodeID) uint64 {
	if f.closed[node] {
		return 0
	}
	return f.unused(node)
}

// Share returns how much of a GPU is free, in thousandths.
func (f *Free) Share(gpu cluster.GPU) int {
	if !f.Usable(gpu) {
		return 0
	}
	return f.left(gpu)
}

// left returns how much of a GPU no job has, in thousandths, whether it is usable or not.
func (f *Free) left(gpu cluster.GPU) int {
	switch {
	case f.whole[gpu.Node]&(1<<gpu.Index) != 0:
		return cluster.WholeGPU
	case f.shares[gpu.Node] == nil:
		return 0
	}
	return f.shares[gpu.Node][gpu.Index]
}

// Closed reports whether a node gets no jobs: it is down, cordoned or draining.
func (f *Free) Closed(node cluster.NodeID) bool { return f.closed[node] }

// State returns what may happen on a node.
func (f *Free) State(node cluster.NodeID) NodeState { return f.states[node] }

// Occupied has a bit for each GPU of a node that something foreign uses. A job may have it, too:
// once the job has released it, no other one gets it.
func (f *Free) Occupied(node cluster.NodeID) uint64 { return f.foreign[node] }

// Usable reports whether a GPU could be given to a job if no other job had it: its node is open,
// and nothing foreign uses it.
func (f *Free) Usable(gpu cluster.GPU) bool {
	return !f.closed[gpu.Node] && f.foreign[gpu.Node]&(1<<gpu.Index) == 0
}

// allUsable reports whether all GPUs of a placement are usable.
func (f *Free) allUsable(on cluster.Placement) bool {
	for _, gpu := range on {
		if !f.Usable(gpu) {
			return false
		}
	}
	return true
}

// Version changes whenever GPUs of a node are allocated or released, or the node is closed or
// opened. Cached results about the node are valid while it is constant.
func (f *Free) Version(node cluster.NodeID) uint32 { return f.versions[node] }

// Rack returns the number of a node's rack, from 0 to Racks()-1. All nodes without a rack are in
// one rack.
func (f *Free) Rack(node cluster.NodeID) int { return int(f.rackOf[node]) }

// Racks returns the number of racks.
func (f *Free) Racks() int { return len(f.racks) }

// Pick appends n unused GPUs of a node, lowest indices first. The node must have that many.
func (f *Free) Pick(to cluster.Placement, node cluster.NodeID, n int) cluster.Placement {
	return pick(to, node, f.unused(node), n)
}

// pick appends the n lowest GPUs of a mask to a placement.
func pick(to cluster.Placement, node cluster.NodeID, mask uint64, n int) cluster.Placement {
	for ; n > 0; n-- {
		to = append(to, cluster.GPU{Node: node, Index: int32(bits.TrailingZeros64(mask))})
		mask &= mask - 1
	}
	return to
}

// Suits reports whether a job can run on a node's GPUs if they are free.
func (f *Free) Suits(j *Job, node cluster.NodeID) bool { return f.classOf[node].suits(j) }

// newFree returns the state of a cluster without jobs.
func newFree(nodes []cluster.Node) *Free {
	f := &Free{racks: map[string]int32{}}
	for _, node := range nodes {
		f.add(node)
	}
	return f
}

// add appends a new node.
func (f *Free) add(node cluster.Node) {
	f.nodes = append(f.nodes, node)
	f.whole = append(f.whole, allGPUs(&node))
	f.foreign = append(f.foreign, 0)
	f.shares = append(f.shares, nil)
	f.closed = append(f.closed, false)
	f.states = append(f.states, NodeOpen)
	f.versions = append(f.versions, 0)
	f.rackOf = append(f.rackOf, f.rackNumber(node.Rack))
	f.classOf = append(f.classOf, f.nodeClass(&node))
	f.changes++
	f.enter(node.ID, +1)
}

// allGPUs has a bit for each GPU of a node.
func allGPUs(node *cluster.Node) uint64 { return 1<<node.GPUs - 1 }

// held has a bit for each GPU of a node that a job has.
func (f *Free) held(node cluster.NodeID) uint64 { return allGPUs(&f.nodes[node]) &^ f.whole[node] }

// replace changes the properties of a node that has come back. The node must be closed, and have
// all GPUs that jobs still have.
func (f *Free) replace(node cluster.Node) {
	held, shares := f.held(node.ID), f.shares[node.ID]
	if shares != nil {
		f.shares[node.ID] = make([]int, node.GPUs)
		copy(f.shares[node.ID], shares)
	}
	f.nodes[node.ID] = node
	f.whole[node.ID] = allGPUs(&node) &^ held
	f.foreign[node.ID] &= allGPUs(&node)
	f.rackOf[node.ID] = f.rackNumber(node.Rack)
	f.classOf[node.ID] = f.nodeClass(&node)
	f.versions[node.ID]++
}

// rackNumber returns the number of a rack, which it may have to create.
func (f *Free) rackNumber(name string) int32 {
	rack, ok := f.racks[name]
	if !ok {
		rack = int32(len(f.racks))
		f.racks[name] = rack
	}
	return rack
}

// nodeClass returns the class of a node, creating it if necessary.
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

// enter adds (sign > 0) or removes the node's current state from its class.
func (f *Free) enter(node cluster.NodeID, sign int) {
	if f.closed[node] {
		return
	}
	k := f.classOf[node]
	k.enter(node, f.rackOf[node], bits.OnesCount64(f.unused(node)), sign)
	for i, share := range f.shares[node] {
		if share > 0 && f.foreign[node]&(1<<i) == 0 {
			k.enterShared(node, share, sign)
		}
	}
}

// allocate takes a share of each GPU of a placement. checkPlacement has verified that it is free.
func (f *Free) allocate(on cluster.Placement, share int) { f.adjust(on, -share) }

// release gives it back.
func (f *Free) release(on cluster.Placement, share int) { f.adjust(on, +share) }

// adjust adds a share to each GPU of a placement.
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

// adjustGPU adds a share to one GPU.
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

// setState closes or opens a node.
func (f *Free) setState(node cluster.NodeID, state NodeState) {
	f.states[node] = state
	if closed := state != NodeOpen; f.closed[node] != closed {
		f.change(node, func() { f.closed[node] = closed })
	}
}

// occupy notes whether something foreign uses a GPU.
func (f *Free) occupy(gpu cluster.GPU, occupied bool) error {
	if !f.exists(gpu) {
		return ErrNoSuchGPU
	}
	gpus := f.foreign[gpu.Node] &^ (1 << gpu.Index)
	if occupied {
		gpus |= 1 << gpu.Index
	}
	f.setForeign(gpu.Node, gpus)
	return nil
}

// setForeign sets which GPUs of a node something foreign uses.
func (f *Free) setForeign(node cluster.NodeID, gpus uint64) {
	if f.foreign[node] != gpus {
		f.change(node, func() { f.foreign[node] = gpus })
	}
}

// change changes which GPUs of a node are usable.
func (f *Free) change(node cluster.NodeID, set func()) {
	f.enter(node, -1)
	set()
	f.versions[node]++
	f.changes++
	f.enter(node, +1)
	f.expected.invalidate()
}
