package scheduler

import (
	"math/bits"
	"slices"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// nodeClass is all nodes of the same GPU type, memory and number of GPUs: jobs can tell them apart
// only by what is free. Closed nodes are not counted.
type nodeClass struct {
	gpuType     string
	memoryBytes int64
	gpus        int // per node

	open   int         // open nodes
	whole  int         // unused GPUs
	racks  []int       // unused GPUs by rack
	byFree []nodeSet   // nodes by how many of their GPUs are unused
	shared *sharedGPUs // nil until a GPU is shared
}

// sharedGPUs indexes nodes by the free thousandths of their shared GPUs.
type sharedGPUs struct {
	byShare  [cluster.WholeGPU]nodeSet
	nonEmpty [(cluster.WholeGPU + 63) / 64]uint64 // a bit for each non-empty set of byShare
	count    map[shareKey]int                     // how many GPUs of a node have that much free
}

// shareKey is a node and a free share of some of its GPUs.
type shareKey struct {
	node  cluster.NodeID
	share int
}

// gpuRequest is what a job requires of each of its GPUs.
type gpuRequest struct {
	gpuType     string
	memoryBytes int64
}

func (j *Job) gpuRequest() gpuRequest { return gpuRequest{j.GPUType(), j.facts.GPUMemoryBytes} }

// accepts reports whether a class has the requested GPUs.
func (w gpuRequest) accepts(k *nodeClass) bool {
	return (w.gpuType == "" || w.gpuType == k.gpuType) && (k.memoryBytes == 0 || w.memoryBytes <= k.memoryBytes)
}

// suits reports whether a job can run on nodes of the class.
func (k *nodeClass) suits(j *Job) bool {
	return j.gpuRequest().accepts(k)
}

// enter adds (sign > 0) or removes a node that has n unused GPUs.
func (k *nodeClass) enter(node cluster.NodeID, rack int32, n, sign int) {
	for len(k.racks) <= int(rack) {
		k.racks = append(k.racks, 0)
	}
	k.racks[rack] += n * sign
	k.open += sign
	k.whole += n * sign
	if sign > 0 {
		k.byFree[n].add(node)
	} else {
		k.byFree[n].remove(node)
	}
}

// enterShared adds (sign > 0) or removes a shared GPU of a node.
func (k *nodeClass) enterShared(node cluster.NodeID, share, sign int) {
	if k.shared == nil {
		k.shared = &sharedGPUs{count: map[shareKey]int{}}
	}
	p, key := k.shared, shareKey{node, share}
	had := p.count[key]
	switch now := had + sign; {
	case now == 0:
		delete(p.count, key)
		p.byShare[share].remove(node)
		if p.byShare[share].size == 0 {
			p.nonEmpty[share/64] &^= 1 << (share % 64)
		}
	case had == 0:
		p.byShare[share].add(node)
		p.nonEmpty[share/64] |= 1 << (share % 64)
		fallthrough
	default:
		p.count[key] = now
	}
}

// tightest returns the least free share, of at least the given one, that a shared GPU has.
func (p *sharedGPUs) tightest(share int) (int, bool) {
	if p == nil || share >= cluster.WholeGPU {
		return 0, false
	}
	for i := share / 64; i < len(p.nonEmpty); i++ {
		word := p.nonEmpty[i]
		if i == share/64 {
			word &= ^uint64(0) << (share % 64)
		}
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word), true
		}
	}
	return 0, false
}

// Next returns the first node, from a number on, that suits a job and has at least least and at
// most most unused GPUs.
func (f *Free) Next(j *Job, from cluster.NodeID, least, most int) (cluster.NodeID, bool) {
	first := int(from) / 64
	for i := first; i*64 < len(f.nodes); i++ {
		var word uint64
		for _, k := range f.classes {
			if k.suits(j) {
				word |= k.word(i, least, most)
			}
		}
		if i == first {
			word &= ^uint64(0) << (from % 64)
		}
		if word != 0 {
			return cluster.NodeID(i*64 + bits.TrailingZeros64(word)), true
		}
	}
	return 0, false
}

// word returns the i-th word of the set of nodes with least to most unused GPUs.
func (k *nodeClass) word(i, least, most int) uint64 {
	var word uint64
	for n := least; n <= min(most, k.gpus); n++ {
		if words := k.byFree[n].words; i < len(words) {
			word |= words[i]
		}
	}
	return word
}

// Count returns how many nodes suit a job and have exactly n unused GPUs.
func (f *Free) Count(j *Job, n int) int {
	count := 0
	for _, k := range f.classes {
		if n <= k.gpus && k.suits(j) {
			count += k.byFree[n].size
		}
	}
	return count
}

// OnRack returns how many unused GPUs of a rack a job can run on.
func (f *Free) OnRack(j *Job, rack int) int {
	n := 0
	for _, k := range f.classes {
		if rack < len(k.racks) && k.suits(j) {
			n += k.racks[rack]
		}
	}
	return n
}

// Largest returns the largest number of unused GPUs on one node that suits a job.
func (f *Free) Largest(j *Job) int {
	largest := 0
	for _, k := range f.classes {
		if !k.suits(j) {
			continue
		}
		for n := k.gpus; n > largest; n-- {
			if k.byFree[n].size > 0 {
				largest = n
			}
		}
	}
	return largest
}

// FewestNodes returns the least number of nodes that hold n GPUs for a job when all GPUs are
// unused; 0 if the open nodes have fewer GPUs.
func (f *Free) FewestNodes(j *Job, n int) int {
	var suiting [8]*nodeClass
	kinds := suiting[:0]
	for _, k := range f.classes {
		if k.suits(j) && k.open > 0 && k.gpus > 0 {
			kinds = append(kinds, k)
		}
	}
	slices.SortFunc(kinds, func(a, b *nodeClass) int { return b.gpus - a.gpus })
	nodes := 0
	for _, k := range kinds {
		if need := (n + k.gpus - 1) / k.gpus; need <= k.open {
			return nodes + need
		}
		nodes, n = nodes+k.open, n-k.open*k.gpus
	}
	return 0
}

// TightestShare returns, of the shared GPUs with room for a job, the first one with the least free
// share.
func (f *Free) TightestShare(j *Job) (cluster.GPU, bool) {
	least, node := cluster.WholeGPU, cluster.NodeID(0)
	for _, k := range f.classes {
		if !k.suits(j) {
			continue
		}
		share, ok := k.shared.tightest(j.facts.Share)
		if !ok || share > least {
			continue
		}
		if first := k.shared.byShare[share].first(); share < least || first < node {
			least, node = share, first
		}
	}
	if least == cluster.WholeGPU {
		return cluster.GPU{}, false
	}
	gpu := cluster.GPU{Node: node}
	for f.Share(gpu) != least {
		gpu.Index++
	}
	return gpu, true
}

// FirstShare returns the first GPU, shared or unused, with room for a job's share.
func (f *Free) FirstShare(j *Job) (cluster.GPU, bool) {
	node, found := f.Next(j, 0, 1, MaxGPUsPerNode)
	for _, k := range f.classes {
		if !k.suits(j) {
			continue
		}
		for share, ok := k.shared.tightest(j.facts.Share); ok; share, ok = k.shared.tightest(share + 1) {
			if first := k.shared.byShare[share].first(); !found || first < node {
				node, found = first, true
			}
		}
	}
	if !found {
		return cluster.GPU{}, false
	}
	gpu := cluster.GPU{Node: node}
	for f.Share(gpu) < j.facts.Share {
		gpu.Index++
	}
	return gpu, true
}

// nodeSet is a set of nodes, iterated by number.
type nodeSet struct {
	words []uint64
	size  int
}

func (s *nodeSet) add(node cluster.NodeID) {
	for len(s.words) <= int(node)/64 {
		s.words = append(s.words, 0)
	}
	s.words[node/64] |= 1 << (node % 64)
	s.size++
}

func (s *nodeSet) remove(node cluster.NodeID) {
	s.words[node/64] &^= 1 << (node % 64)
	s.size--
}

// first returns the lowest node. The set must not be empty.
func (s *nodeSet) first() cluster.NodeID {
	i := 0
	for s.words[i] == 0 {
		i++
	}
	return cluster.NodeID(i*64 + bits.TrailingZeros64(s.words[i]))
}

// SameGPUs reports whether two jobs can run on the same GPUs.
func (f *Free) SameGPUs(a, b *Job) bool {
	return !slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.suits(a) != k.suits(b) })
}
