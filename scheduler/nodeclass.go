package scheduler

import (
	"math/bits"
	"slices"

	"github.com/phos-gpu/phos/cluster"
)

// nodeClass is all nodes that a job cannot tell apart but for what is free of them. Closed nodes are not
// counted.
type nodeClass struct {
	gpuType     string
	memoryBytes int64
	gpus        int // per node

	open   int         // nodes
	whole  int         // GPUs that nobody uses
	racks  []int       // by rack, GPUs that nobody uses
	byFree []nodeSet   // by how many of its GPUs nobody uses
	shared *sharedGPUs // nil until a GPU is shared
}

// sharedGPUs sorts nodes by the free thousandths of their shared GPUs.
type sharedGPUs struct {
	byShare  [cluster.WholeGPU]nodeSet
	nonEmpty [(cluster.WholeGPU + 63) / 64]uint64 // a bit for each of exact that is not empty
	count    map[shareKey]int                     // how many GPUs of a node have so much free
}

type shareKey struct {
	node  cluster.NodeID
	share int
}

// gpuRequest is what a job asks of each of its GPUs.
type gpuRequest struct {
	gpuType     string
	memoryBytes int64
}

func (j *Job) gpuRequest() gpuRequest { return gpuRequest{j.GPUType(), j.facts.GPUMemoryBytes} }

func (w gpuRequest) accepts(k *nodeClass) bool {
	return (w.gpuType == "" || w.gpuType == k.gpuType) && (k.memoryBytes == 0 || w.memoryBytes <= k.memoryBytes)
}

func (k *nodeClass) suits(j *Job) bool {
	return j.gpuRequest().accepts(k)
}

// enter enters a node that has n whole GPUs free, or takes it out.
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

// enterShared enters a shared GPU of a node, or takes it out.
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

// tightest is the least free share of at least share that a GPU has.
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

// Next is the first node, numbered from or more, that suits a job and has at least least and at
// most most GPUs that nobody uses.
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

func (k *nodeClass) word(i, least, most int) uint64 {
	var word uint64
	for n := least; n <= min(most, k.gpus); n++ {
		if words := k.byFree[n].words; i < len(words) {
			word |= words[i]
		}
	}
	return word
}

// Count is how many nodes suit a job and have exactly n GPUs that nobody uses.
func (f *Free) Count(j *Job, n int) int {
	count := 0
	for _, k := range f.classes {
		if n <= k.gpus && k.suits(j) {
			count += k.byFree[n].size
		}
	}
	return count
}

// OnRack is how many GPUs of a rack nobody uses that a job can run on.
func (f *Free) OnRack(j *Job, rack int) int {
	n := 0
	for _, k := range f.classes {
		if rack < len(k.racks) && k.suits(j) {
			n += k.racks[rack]
		}
	}
	return n
}

// Largest is the most GPUs that nobody uses on one node that suits a job.
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

// FewestNodes is on how many nodes, at the least, n GPUs for a job lie if nobody uses any; 0 where
// the open nodes have not so many.
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

// TightestShare is the GPU with the least free of those that have a job's share free and that
// somebody uses already: the first of them.
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
	return cluster.GPU{Node: node, Index: int32(slices.Index(f.shares[node], least))}, true
}

// FirstShare is the first GPU that has a job's share free, used by others or not.
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

// nodeSet is a set of nodes that is walked in the order of their numbers.
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

// first is the one of the least number. The set must not be empty.
func (s *nodeSet) first() cluster.NodeID {
	i := 0
	for s.words[i] == 0 {
		i++
	}
	return cluster.NodeID(i*64 + bits.TrailingZeros64(s.words[i]))
}
