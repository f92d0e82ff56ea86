package scheduler

import (
	"iter"
	"math/bits"

	"github.com/phos-gpu/phos/cluster"
)

// Free is what is free of a cluster, kept so that "which node has exactly three free GPUs" is not a search.
// Nodes that are down or draining have nothing free. Policies only read it.
type Free struct {
	nodes  []cluster.Node
	whole  []uint64           // per node, a bit for each GPU that nobody uses
	shares [][]int            // per node and GPU, the free thousandths; nil for a node whose GPUs were never shared
	closed []bool             // per node
	levels map[string]*levels // by GPU type; "" holds all nodes
}

// levels sorts nodes by how many whole GPUs they have free: exact[n] are those with n.
type levels struct {
	exact []nodeSet
	total int
}

// Whole is how many GPUs of a type nobody uses; of any where the type is empty.
func (f *Free) Whole(gpuType string) int {
	if l := f.levels[gpuType]; l != nil {
		return l.total
	}
	return 0
}

// On is how many GPUs of a node nobody uses.
func (f *Free) On(node cluster.NodeID) int {
	if f.closed[node] {
		return 0
	}
	return bits.OnesCount64(f.whole[node])
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

// Largest is the most GPUs that one node of a type has free.
func (f *Free) Largest(gpuType string) int {
	l := f.levels[gpuType]
	if l == nil {
		return 0
	}
	for n := len(l.exact) - 1; n > 0; n-- {
		if l.exact[n].size > 0 {
			return n
		}
	}
	return 0
}

// With are the nodes of a type that have exactly n free GPUs, by number.
func (f *Free) With(gpuType string, n int) iter.Seq[cluster.NodeID] {
	l := f.levels[gpuType]
	if l == nil || n < 0 || n >= len(l.exact) {
		return func(func(cluster.NodeID) bool) {}
	}
	return l.exact[n].all()
}

// Pick are n free GPUs of a node, the lowest indices first. It must have that many.
func (f *Free) Pick(to cluster.Placement, node cluster.NodeID, n int) cluster.Placement {
	for mask := f.whole[node]; n > 0; n-- {
		to = append(to, cluster.GPU{Node: node, Index: int32(bits.TrailingZeros64(mask))})
		mask &= mask - 1
	}
	return to
}

// Suits reports whether a job can run on a node's GPUs at all, were they free.
func (f *Free) Suits(j *Job, node cluster.NodeID) bool {
	n := &f.nodes[node]
	return (j.facts.GPUType == "" || j.facts.GPUType == n.GPUType) &&
		(n.GPUMemoryBytes == 0 || j.facts.GPUMemoryBytes <= n.GPUMemoryBytes)
}

// newFree is a cluster of which everything is free.
func newFree(nodes []cluster.Node) *Free {
	f := &Free{levels: map[string]*levels{"": {}}}
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
	if f.levels[node.GPUType] == nil {
		f.levels[node.GPUType] = &levels{}
	}
	f.count(node.ID, +1)
}

// count enters a node at the level that it is on, or takes it from there.
func (f *Free) count(node cluster.NodeID, sign int) {
	n := f.On(node)
	f.levels[""].count(node, n, sign)
	if gpuType := f.nodes[node].GPUType; gpuType != "" {
		f.levels[gpuType].count(node, n, sign)
	}
}

func (l *levels) count(node cluster.NodeID, n, sign int) {
	for len(l.exact) <= n {
		l.exact = append(l.exact, nodeSet{})
	}
	l.total += n * sign
	if sign > 0 {
		l.exact[n].put(node)
	} else {
		l.exact[n].drop(node)
	}
}

// take gives a share of each GPU of a placement away. What is not free cannot be taken: check has seen to it.
func (f *Free) take(on cluster.Placement, share int) { f.move(on, -share) }

// give takes it back.
func (f *Free) give(on cluster.Placement, share int) { f.move(on, +share) }

func (f *Free) move(on cluster.Placement, share int) {
	for from := 0; from < len(on); {
		to := from
		for to < len(on) && on[to].Node == on[from].Node {
			to++
		}
		node := on[from].Node
		f.count(node, -1)
		for _, gpu := range on[from:to] {
			f.moveOne(gpu, share)
		}
		f.count(node, +1)
		from = to
	}
}

func (f *Free) moveOne(gpu cluster.GPU, share int) {
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

// close makes a node's GPUs unavailable, or available again.
func (f *Free) close(node cluster.NodeID, closed bool) {
	f.count(node, -1)
	f.closed[node] = closed
	f.count(node, +1)
}

// nodeSet is a set of nodes that is walked in the order of their numbers.
type nodeSet struct {
	words []uint64
	size  int
}

func (s *nodeSet) put(node cluster.NodeID) {
	for len(s.words) <= int(node)/64 {
		s.words = append(s.words, 0)
	}
	s.words[node/64] |= 1 << (node % 64)
	s.size++
}

func (s *nodeSet) drop(node cluster.NodeID) {
	s.words[node/64] &^= 1 << (node % 64)
	s.size--
}

func (s *nodeSet) all() iter.Seq[cluster.NodeID] {
	return func(yield func(cluster.NodeID) bool) {
		for i, word := range s.words {
			for ; word != 0; word &= word - 1 {
				if !yield(cluster.NodeID(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
